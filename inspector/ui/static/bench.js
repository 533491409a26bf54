// The page's controller: reads the fields, asks the server, shows answers and errors, moves the selection.
// While a request is in flight, newer input only marks the page dirty; an older answer never replaces a newer one.

const OVERTAKE_MS = 1000, SLOW_MS = 1000, TYPING_MS = 200;
const EDITORS = ['messages', 'tools', 'documents', 'arguments'];
const pathText = (steps) => steps.map((step, k) => (typeof step === 'number' ? '[' + step + ']' : /^[A-Za-z_]\w*$/.test(step) ? (k ? '.' : '') + step : '[' + JSON.stringify(step) + ']')).join('');

// What a reload keeps: language and theme in this browser, the inputs in this tab. Where the browser refuses to store
// (blocked, or more than it allows), nothing is kept, and the page works the same.
const stored = (store, key) => { try { return window[store].getItem('inspector-' + key); } catch (error) { return null; } };
const keep = (store, key, value) => { try { window[store].setItem('inspector-' + key, value); } catch (error) { /* nothing is kept */ } };

// What decides a pane's answer: its choices, and the texts that are typed.
const keysOf = ({ fields, panes }) => panes.map((pane) => [JSON.stringify({ ...pane, template_text: pane.template_text !== null }), [...Object.values(fields), pane.template_text].join('\u0000')]);

class Bench {
  constructor(root, server, config) {
    Object.assign(this, { root, server, config });
    this.$ = (selector) => root.querySelector(selector);
    this.session = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
    strings = config.strings;
    language = stored('localStorage', 'language') ?? ((navigator.language || '').startsWith('zh') ? 'zh' : 'en');
    if (!(language in strings)) language = 'en';
    const dark = stored('localStorage', 'dark');
    if (dark !== null) document.body.classList.toggle('dark', dark === '1');
    const empty = () => new Pane(config.empty);
    this.state = { panes: [empty(), empty()], rows: null, colour: 'alternate', stale: [true, true], logits: null, records: ['', ''], control: null, safeOn: false, shift: [0, 0] };
    this.state.rows = unaligned(this.state.panes, [null, null]);
    this.state.own = { panes: this.state.panes, rows: this.state.rows };
    this.cuts = [null, null]; this.answered = null; this.shownOf = [null, null]; this.waiting = [false, false]; this.failed = [false, false];
    this.view = config.views[0].id; this.selected = null; this.pick = null; this.link = null; this.pointed = null; this.hoverLink = null; this.back = null; this.split = false; this.lastMs = 0; this.marked = [];
    this.grid = new Grid(this.$('.ti-grid'), this.$('.ti-space'), () => root.classList.contains('narrow'));
    this.second = new Grid(this.$('.ti-second'), this.$('.ti-second .ti-space'), () => root.classList.contains('narrow'));
    this.grid.painted = this.second.painted = () => this.mark();
    this.build(); this.restore(); this.localize(); this.listen(); this.observe();
    this.changed();
  }

  // ---- building -------------------------------------------------------------------------------------------------
  build() {
    for (const box of this.root.querySelectorAll('.ti-fields .ti-field')) {
      const input = box.querySelector('[data-in]'), label = box.querySelector('label'), err = box.querySelector('.ti-err'), id = FLOW.uid + '-' + box.dataset.field;
      input.id = id; label.htmlFor = id; err.id = id + '-err'; input.setAttribute('aria-describedby', err.id);
      if (input.tagName !== 'SELECT') { input.spellcheck = false; input.autocomplete = 'off'; }
    }
    for (const name of ['profile', 'policy']) for (const value of this.config[name]) { const option = el('option', '', value); option.value = value; this.field(name).append(option); }
    for (const value of [...this.config.models, CUSTOM]) { const option = el('option', '', value); option.value = value; this.field('model').append(option); }
    for (const [name, value] of Object.entries(this.config.defaults.fields)) { const node = this.field(name); if (node.type === 'checkbox') node.checked = value; else node.value = value; }
    this.heads = [0, 1].map((q) => new Head(q, this.config, () => this.changed(), this));
    this.editors = EDITORS.map((name) => new Editor(name, this.field(name)));
    this.compareLine = el('button', 'ti-compare'); this.compareLine.type = 'button';
    this.general = el('p', 'ti-err ti-general'); this.general.hidden = true; this.general.setAttribute('role', 'alert');
    this.$('.ti-heads').append(...this.heads.map((head) => head.node), this.compareLine, this.general);
    this.tabs = this.config.views.map((view) => this.tab(view));
    this.$('.ti-tabs').append(...this.tabs);
  }
  // Every input of the form and of both heads, by name.
  inputs() { return Object.fromEntries(Array.from(this.root.querySelectorAll('.ti-fields [data-in], .ti-head [data-in]'), (node) => [node.dataset.in, node.type === 'checkbox' ? node.checked : node.value])); }
  put(values) {
    for (const node of this.root.querySelectorAll('.ti-fields [data-in], .ti-head [data-in]')) {
      const value = values[node.dataset.in];
      if (node.type === 'checkbox') { if (typeof value === 'boolean') node.checked = value; continue; }
      if (typeof value !== 'string' || (node.tagName === 'SELECT' && !Array.from(node.options).some((option) => option.value === value))) continue;
      node.value = value;
    }
    this.heads.forEach((head) => head.chosen());
    this.modelChosen();
  }
  restore() {
    this.initial = this.inputs();
    let saved = null;
    try { saved = JSON.parse(stored('sessionStorage', 'inputs')); } catch (error) { /* another version's: the example it is */ }
    if (saved && typeof saved === 'object') this.put(saved);
    addEventListener('pagehide', () => keep('sessionStorage', 'inputs', JSON.stringify(this.inputs())));
  }
  field(name) { return this.$('[data-in="' + name + '"]'); }
  tab(view) {
    const tab = el('button', 'ti-tab'); tab.type = 'button'; tab.dataset.view = view.id; tab.setAttribute('role', 'tab');
    tab.addEventListener('click', () => this.open(view.id));
    return tab;
  }
  localize() {
    this.root.lang = document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    for (const node of this.root.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
    for (const node of this.root.querySelectorAll('[data-tl]')) node.setAttribute('aria-label', t(node.dataset.tl));
    for (const node of this.root.querySelectorAll('[data-tp]')) node.placeholder = t(node.dataset.tp);
    this.heads.forEach((head) => head.localize());
    this.config.views.forEach((view, k) => { this.tabs[k].textContent = t('view_' + view.id); });
    this.$('.ti-grid').setAttribute('aria-label', t('grid_label'));
    this.$('.ti-second').setAttribute('aria-label', t('view_template'));
    this.field('model').lastChild.textContent = t('custom_ref');
    this.markTabs(); this.drawTools();
    if (this.answer) this.showAnswer(this.answer); else this.draw(true);
    this.drawCard();
  }

  // ---- asking ---------------------------------------------------------------------------------------------------
  read() {
    const value = (name) => this.field(name).value, fields = {}, options = { add_generation_prompt: this.field('add_generation_prompt').checked };
    for (const name of ['messages', 'tools', 'documents', 'arguments']) fields[name] = value(name);
    for (const name of ['clock', 'profile', 'context_window', 'max_new_tokens', 'policy']) options[name] = value(name).trim();
    return { fields, panes: this.heads.map((head) => ({ ...head.read(), ...options })) };
  }
  modelRef() { const model = this.field('model').value; return model === CUSTOM ? this.field('model_ref').value.trim() : model; }
  modelChosen() { const ref = this.field('model_ref'); ref.hidden = this.field('model').value !== CUSTOM; }
  // The same, at the time that the shown answer was rendered at: what is asked for later describes what is in sight.
  readShown() {
    const request = this.read();
    request.panes.forEach((pane, q) => { pane.clock = pane.clock || this.state.own.panes[q].clock || ''; });
    return request;
  }
  changed() {
    this.dirty = true;
    this.checkAge();
    clearTimeout(this.keepTimer);
    this.keepTimer = setTimeout(() => keep('sessionStorage', 'inputs', JSON.stringify(this.inputs())), 300);
    clearTimeout(this.timer);
    // No delay while answers are quick; a pause in typing is awaited only when they are not. A request that hangs is
    // overtaken: the server then gives it up for the newer one.
    const hangs = this.inFlight ? OVERTAKE_MS - (performance.now() - this.started) : 0;
    this.timer = setTimeout(() => this.ask(), Math.max(hangs, this.lastMs > 250 ? 120 : 0, 0));
  }
  async ask() {
    if (!this.dirty) return;
    const mine = (this.asked = (this.asked || 0) + 1), started = (this.started = performance.now()), request = this.read();
    this.inFlight = true; this.dirty = false;
    const waiting = setTimeout(() => this.status(t('computing'), 'busy'), 200);
    const slow = setTimeout(() => this.watch(mine, started), SLOW_MS);
    const answer = await this.server.view({ session: this.session, ...request });
    clearTimeout(waiting); clearTimeout(slow);
    if (mine > (this.shown || 0) && answer !== 'null') { this.shown = mine; this.arrived(answer, started, request); }
    if (mine !== this.asked) return;
    this.inFlight = false;
    this.$('[data-act="cancel"]').hidden = true;
    this.root.dataset.ready = this.dirty ? '0' : '1';
    if (this.dirty) { clearTimeout(this.timer); this.changed(); }
  }
  // A slow request says what it is at and for how long, and can be given up.
  async watch(mine, started) {
    this.$('[data-act="cancel"]').hidden = false;
    while (this.inFlight && mine === this.asked) {
      const text = await this.server.progress({ session: this.session });
      if (!this.inFlight || mine !== this.asked) return;
      this.status(this.doing(typeof text === 'string' ? JSON.parse(text) : null, (performance.now() - started) / 1000), 'busy');
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
  doing(run, seconds) {
    const values = run ? { pane: 'AB'[run.pane], ref: show(run.ref).replaceAll('\u00b7', ' '), mb: (run.done / 1e6).toFixed(1) + (run.total ? ' / ' + (run.total / 1e6).toFixed(1) : '') } : {};
    return t(!run ? 'computing' : run.step === 'artifacts' ? (run.done ? 'doing_download' : 'doing_artifacts') : 'doing_rendering', values) + ' \u00b7 ' + Math.round(seconds) + ' s';
  }
  cancel() {
    this.shown = this.asked = this.asked + 1;  // the answer, should it still come, is of no request
    clearTimeout(this.timer);
    this.inFlight = false; this.dirty = false; this.root.dataset.ready = '1';
    this.$('[data-act="cancel"]').hidden = true; this.$('[data-act="retry"]').hidden = false;
    this.status(t('cancelled'), 'bad');
    this.server.cancel({ session: this.session });
    this.showAge();
  }
  arrived(answer, started, request) {
    this.lastMs = performance.now() - started;
    this.lost(typeof answer !== 'string');
    if (typeof answer !== 'string') return;
    const read = JSON.parse(answer);
    this.answered = keysOf(request);
    request.panes.forEach((pane, q) => { if (read.panes && read.panes[q]) this.shownOf[q] = pane; });
    this.showAnswer(read, true);
    this.checkAge();
    this.status(t('answered', { ms: Math.round(performance.now() - started) }), '');
  }
  lost(gone) {
    this.$('[data-act="retry"]').hidden = !gone;
    if (gone) { this.status(t('lost'), 'bad'); this.stale([true, true]); }
  }
  status(text, cls) { const node = this.$('.ti-status'); node.textContent = text; node.className = 'ti-status ' + cls; }

  // ---- answers --------------------------------------------------------------------------------------------------
  showAnswer(answer, fresh) {
    this.answer = answer;
    if (answer.legend) { FLAG = answer.legend.flags; KINDS = answer.legend.kinds; }
    this.showErrors(answer.errors);
    if (fresh && answer.panes) {
      this.state.logitsStale = Boolean(this.state.logits);
      this.state.recordStale = true;
      this.state.controlStale = true;
      this.state.own = this.tables(answer, this.state.own.panes, this.cuts);
      if (!this.state.safeOn) this.show(this.state.own);
    }
    if (fresh && answer.legend) this.drawTools();
    const failed = (q) => !answer.panes || !answer.panes[q];
    this.stale([failed(0), failed(1)]);
    this.heads.forEach((head, q) => head.showCounts(this.state.own.panes[q]));
    this.showComparison(answer);
    this.draw(true);
    if (fresh && this.view === 'record') this.askRecord();
    if (fresh && this.view === 'control') this.askControlSoon();
    if (fresh && VIEW_MODELS[this.view].arrived) VIEW_MODELS[this.view].arrived(this);
    if (fresh && this.state.safeOn) this.askSafe();
    if (fresh) this.askEstimate();
  }
  // Panes and rows of an answer; a pane that has none keeps what it was.
  tables(answer, before, cuts) {
    const panes = answer.panes.map((data, q) => (data ? new Pane(data) : before[q]));
    answer.panes.forEach((data, q) => { if (data) cuts[q] = u32(data.cuts); });
    return { panes, rows: answer.rows ? new Rows(answer.rows, panes) : unaligned(panes, cuts) };
  }
  // Put tables in sight: the library's, or those of the safe ids.
  show({ panes, rows }) { this.state.panes = panes; this.state.rows = rows; this.keepSelection(); }
  stale(flags) { this.failed = flags; this.showAge(); }
  // A pane whose inputs are no longer those of its answer is marked: at once after another choice, and while a person
  // types only when the answer is not quick.
  checkAge() {
    clearTimeout(this.ageTimer);
    if (!this.answered) return;
    const now = keysOf(this.read()), other = (k) => now.map((keys, q) => keys[k] !== this.answered[q][k]), [choice, typed] = [other(0), other(1)];
    this.waiting = this.waiting.map((flag, q) => choice[q] || (typed[q] && flag));
    this.showAge();
    if (typed.some(Boolean)) this.ageTimer = setTimeout(() => { this.waiting = choice.map((flag, q) => flag || typed[q]); this.showAge(); }, TYPING_MS);
  }
  showAge() {
    const panes = this.read().panes;
    this.state.stale = this.failed.map((flag, q) => flag || this.waiting[q]);
    this.state.stale.forEach((flag, q) => {
      const head = this.heads[q], of = this.shownOf[q], same = of && of.tokenizer === panes[q].tokenizer && of.template === panes[q].template && of.template_text === panes[q].template_text;
      this.root.classList.toggle('stale' + q, flag); head.node.classList.toggle('ti-old', flag);
      const why = this.waiting[q] ? (this.inFlight || this.dirty ? t('pane_waiting') : t('pane_old')) : this.failed[q] ? t('stale') : '';
      if (head.wanting()) { head.showAge(t('reference_wanted') + (of ? ' \u00b7 ' + t('shown_of', { choice: head.named(of) }) : '')); return; }
      head.showAge(flag && of ? why + (same ? '' : ' \u00b7 ' + t('shown_of', { choice: head.named(of) })) : why);
    });
  }
  showErrors(errors) {
    for (const node of this.root.querySelectorAll('.ti-err[id]')) { node.hidden = true; node.textContent = ''; }
    for (const node of this.root.querySelectorAll('[aria-invalid]')) node.removeAttribute('aria-invalid');
    const general = [];
    for (const error of errors) {
      if (!this.showFieldError(error)) general.push((error.pane === null ? '' : 'AB'[error.pane] + ': ') + error.text);
    }
    this.general.hidden = !general.length;
    this.general.textContent = general.join('\n');
    const input = this.$('.ti-input');
    if (errors.some((error) => error.pane === null) && this.root.classList.contains('narrow')) input.open = true;
  }
  showFieldError(error) {
    const scope = error.pane === null ? this.$('.ti-fields') : this.heads[error.pane].node;
    const box = error.place && (scope.querySelector('[data-field="' + error.place + '"]') || this.$('.ti-fields [data-field="' + error.place + '"]'));
    if (!box) return false;
    const node = box.querySelector('.ti-err'), prefix = error.pane !== null && !scope.contains(box) ? 'AB'[error.pane] + ': ' : '';
    if (node.hidden || !node.textContent.endsWith(error.text)) node.textContent = node.textContent ? node.textContent + '\n' + prefix + error.text : prefix + error.text;
    node.hidden = false;
    for (const input of box.querySelectorAll('[data-in]')) input.setAttribute('aria-invalid', 'true');
    return true;
  }
  showComparison(answer) {
    const c = answer.comparison, line = this.compareLine;
    line.disabled = true;
    if (!c) { line.textContent = !answer.errors.length ? '' : answer.errors.some((error) => error.pane === null) ? t('stale') : t('no_comparison'); return; }
    if (!c.first_difference) { line.textContent = c.equal.bytes && c.equal.ids ? t('equal') : t('equal_bytes'); return; }
    const d = c.first_difference;
    line.disabled = false;
    line.textContent = t(d.byte === null ? 'first_difference_ids' : 'first_difference', { byte: number(d.byte ?? 0), a: d.token_a ?? '\u2013', b: d.token_b ?? '\u2013', reason: said(d.reason) });
    line.title = t('go_to_difference');
  }

  // ---- drawing --------------------------------------------------------------------------------------------------
  draw(keepScroll) {
    const view = VIEW_MODELS[this.view], panel = this.$('.ti-panel'), body = this.$('.ti-grid'), split = this.splits();
    panel.hidden = !view.panel; body.hidden = Boolean(view.panel);
    this.$('.ti-second').hidden = !split;
    this.$('.ti-body').classList.toggle('ti-split', split);
    panel.classList.remove('ti-stale');
    if (view.panel) { view.panel(this.state, panel, this); return; }
    calibrate(this.$('.ti-space'));
    this.grid.set(this.modelOf(this.view, this.grid), keepScroll);
    if (split) this.second.set(this.modelOf('template', this.second), keepScroll);
  }
  modelOf(id, grid) { const view = VIEW_MODELS[id]; return view.model(this.state, grid.columnsFor({ panes: 2, gutterWidth: view.gutter })); }
  splits() { return this.split && Boolean(VIEW_MODELS[this.view].flow); }
  // What is drawn now: [grid, id of its view].
  spots() { return VIEW_MODELS[this.view].panel ? [] : this.splits() ? [[this.grid, this.view], [this.second, 'template']] : [[this.grid, this.view]]; }
  open(id) {
    this.view = id; this.markTabs(); this.drawTools(); this.draw(false);
    if (VIEW_MODELS[id].opened) VIEW_MODELS[id].opened(this);
    if (id === 'record') this.askRecord();
    if (id === 'control' && (!this.state.control || this.state.controlStale)) this.askControl();
    if (id === 'logits' && !this.state.logitsBusy && (!this.state.logits || this.state.logitsStale)) this.askLogits();
    if (this.link) this.reveal();
    this.drawCard();
  }
  markTabs() {
    for (const tab of this.tabs) { const on = tab.dataset.view === this.view; tab.setAttribute('aria-selected', on); tab.tabIndex = on ? 0 : -1; }
  }
  drawTools() {
    const tools = this.$('.ti-tools'); tools.replaceChildren();
    const button = (key, act) => { const node = el('button', 'ti-btn', t(key)); node.type = 'button'; node.addEventListener('click', act); tools.append(node); return node; };
    if (VIEW_MODELS[this.view].flow && this.state.safeOn) tools.append(el('b', 'ti-hot ti-safenote', t('safe_shown')));
    if (this.view === 'tokens') tools.append(this.check('show_ids', FLOW.ids, (on) => { FLOW.ids = on; this.draw(true); }));
    const colour = (key, name) => tools.append(this.check(key, this.state.colour === name, (on) => { this.state.colour = on ? name : 'alternate'; this.drawTools(); this.draw(true); }));
    if (this.view === 'tokens') colour('colour_origin', 'origin');
    if (['tokens', 'rendered'].includes(this.view)) colour('colour_trained', 'trained');
    if (VIEW_MODELS[this.view].flow) {
      tools.append(this.check('safe_toggle', this.state.safeOn, (on) => this.showSafe(on)));
      tools.append(this.check('split_toggle', this.split, (on) => { this.split = on; this.draw(true); if (this.link) this.reveal(); }));
    }
    if (['tokens', 'rendered'].includes(this.view)) { button('previous_difference', () => this.difference(-1)); button('next_difference', () => this.difference(1)); }
    if (['tokens', 'bytes', 'rendered'].includes(this.view)) [0, 1].forEach((q) => { button('copy_' + (this.view === 'tokens' ? 'ids' : this.view === 'bytes' ? 'hex' : 'text'), () => this.copy(q)).prepend('AB'[q] + ' '); });
    const view = VIEW_MODELS[this.view];
    if (view.tools) view.tools(this, tools, button);
    if (this.view === 'tensors') [0, 1].forEach((q) => { button('copy_text', () => this.copy(q)).prepend('AB'[q] + ' '); });
    if (this.view === 'record') for (const [key, act] of [['copy_json', (q) => this.copy(q)], ['download_json', (q) => this.download(q)]]) [0, 1].forEach((q) => { button(key, () => act(q)).prepend('AB'[q] + ' '); });
    tools.append(el('span', 'ti-copied'), this.legend());
  }
  check(key, on, act) {
    const label = el('label', 'ti-checkbox'), box = el('input'); box.type = 'checkbox'; box.checked = on;
    box.addEventListener('change', () => act(box.checked));
    label.append(box, ' ' + t(key));
    return label;
  }
  legend() {
    const node = el('span', 'ti-legend'), item = (cls, text) => node.append(el('span', cls, text));
    if (['tokens', 'rendered'].includes(this.view) && this.state.colour === 'trained') { item('ti-seg ti-learned', t('trained')); item('ti-seg ti-unlearned', t('not_trained')); item('ti-dim', this.state.panes.map((pane, q) => 'AB'[q] + ': ' + t('mask_from_' + (pane.assistant_from || 'none'))).join(' \u00b7 ')); }
    else if (this.view === 'rendered' || (this.view === 'tokens' && this.state.colour === 'origin')) for (const kind of Object.values(KINDS)) item('ti-seg o-' + kind, t('kind_' + kind));
    if (this.view === 'tokens' && this.state.colour === 'alternate') { item('ti-tok k0', t('legend_token')); item('ti-tok k1', t('legend_token')); }
    if (this.view === 'tokens') for (const [flag, text] of [['special', 'flag_special'], ['added', 'flag_added'], ['inserted', 'flag_inserted'], ['from_content', 'flag_from_content'], ['look_alike', 'flag_look_alike']]) item('ti-tok k0 f-' + flag + (flag === 'from_content' ? ' f-special' : ''), (flag === 'from_content' ? '\u26a0' : flag === 'inserted' ? '\u2295' : '') + t(text));
    if (this.view === 'tokens') { const group = el('span', 'ti-group k0'); group.append(el('span', '', '\u00e9'), el('span', 'ti-part', '1'), el('span', 'ti-part', '2')); node.append(group, el('span', 'ti-dim', t('legend_group'))); }
    if (VIEW_MODELS[this.view].flow) { item('ti-rowkey ti-rowkey-a', t('legend_text_a')); item('ti-rowkey ti-rowkey-b', t('legend_text_b')); if (this.view === 'tokens') item('ti-rowkey ti-rowkey-id', t('legend_ids')); item('ti-dim', t('legend_same')); }
    if (this.view === 'template') item('ti-ranmark', t('lines_that_wrote'));
    return node;
  }
  async copy(q) {
    const pane = this.state.panes[q];
    const text = { tokens: () => JSON.stringify(Array.from(pane.ids)), bytes: () => hex(pane.bytes), rendered: () => pane.text(0, pane.bytes.length), record: () => this.state.records[q], tensors: () => tensorText(pane) }[this.view]();
    const said = this.$('.ti-copied');
    try { await navigator.clipboard.writeText(text); said.textContent = t('copied'); } catch (error) { said.textContent = t('copy_failed'); }
    setTimeout(() => { said.textContent = ''; }, 2500);
  }

  download(q) {
    const link = el('a'), url = URL.createObjectURL(new Blob([this.state.records[q]], { type: 'application/json' }));
    link.href = url; link.download = 'inspection-' + 'ab'[q] + '.json';
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // ---- answers that are asked for -------------------------------------------------------------------------------
  async askLogits() {
    Object.assign(this.state, { logitsBusy: true });
    if (this.view === 'logits') this.draw(true);
    const answer = await this.server.logits({ session: this.session, model: this.modelRef(), ...this.readShown() });
    Object.assign(this.state, { logitsBusy: false, logitsStale: false });
    if (typeof answer === 'string') this.state.logits = JSON.parse(answer); else this.lost(true);
    if (this.view === 'logits') this.draw(true);
  }
  // The Control tables render and tokenize again, so while a person types they wait for a pause.
  askControlSoon() { clearTimeout(this.controlTimer); this.controlTimer = setTimeout(() => this.askControl(), 400); }
  async askControl() {
    if (this.controlInFlight) { this.controlAgain = true; return; }
    clearTimeout(this.controlTimer);
    this.controlInFlight = true; this.state.controlBusy = true;
    if (this.view === 'control') this.draw(true);
    const answer = await this.server.control({ session: this.session, ...this.readShown() });
    this.controlInFlight = false; this.state.controlBusy = false;
    if (typeof answer === 'string') { this.state.control = JSON.parse(answer); this.state.controlStale = Boolean(this.controlAgain); } else this.lost(true);
    if (this.view === 'control') this.draw(true);
    if (this.controlAgain) { this.controlAgain = false; this.askControl(); }
  }
  showForged() { this.state.onlyForged = true; this.open('control'); this.$('.ti-panel').focus(); }
  showSafe(on) {
    this.state.safeOn = on;
    if (!VIEW_MODELS[this.view].flow) this.open('tokens');
    if (on) { this.askSafe(); this.drawTools(); return; }
    this.show(this.state.own); this.drawTools(); this.draw(true);
  }
  // Until the safe tables are there, what is shown stays what it was.
  async askSafe() {
    if (this.safeInFlight) { this.safeAgain = true; return; }
    this.safeInFlight = true;
    const text = await this.server.safe({ session: this.session, ...this.readShown() });
    this.safeInFlight = false;
    if (typeof text !== 'string') this.lost(true);
    else if (this.state.safeOn) {
      const answer = JSON.parse(text);
      if (answer.panes) { this.show(this.tables(answer, this.state.own.panes, [...this.cuts])); this.drawTools(); this.draw(true); }
    }
    if (this.safeAgain) { this.safeAgain = false; this.askSafe(); }
  }
  async askRecord() {
    if (this.recordInFlight) { this.recordAgain = true; return; }
    this.recordInFlight = true;
    if (!this.state.records[0] && !this.state.records[1]) { this.state.records = [t('computing'), t('computing')]; this.draw(false); }
    const answer = await this.server.record({ session: this.session, ...this.readShown() });
    this.recordInFlight = false;
    if (typeof answer === 'string') this.state.records = JSON.parse(answer).records; else this.lost(true);
    if (this.view === 'record') this.draw(true);
    if (this.recordAgain) { this.recordAgain = false; this.askRecord(); }
  }

  // The estimate follows the panes' answer; while one is awaited, a newer wish is only noted.
  async askEstimate() {
    const model = this.field('openai_model').value.trim(), line = this.$('.ti-estimate');
    if (this.estimateInFlight) { this.estimateAgain = true; return; }
    if (!model) { line.textContent = ''; return; }
    this.estimateInFlight = true;
    const busy = setTimeout(() => { line.textContent = t('estimate_busy'); }, 150);
    const text = await this.server.estimate({ session: this.session, openai_model: model, ...this.read() });
    this.estimateInFlight = false;
    clearTimeout(busy);
    if (typeof text === 'string') this.showEstimate(JSON.parse(text), line); else { line.textContent = ''; this.lost(true); }
    if (this.estimateAgain) { this.estimateAgain = false; this.askEstimate(); }
  }
  showEstimate({ count, error }, line) {
    line.textContent = count ? [t('openai_estimate', { total: number(count.total), messages: number(count.message_tokens), tools: number(count.tool_tokens), model: count.resolved_model, encoding: count.encoding }), ...count.warnings].join('\n') : '';
    if (error && error.place) this.showFieldError(error);
  }

  // ---- selection ------------------------------------------------------------------------------------------------
  select(q, i, reveal, extend) {
    const pane = this.state.panes[q];
    if (i < 0 || i >= pane.n) return;
    const anchor = extend && this.selected && this.selected[0] === q ? this.anchor ?? this.selected[1] : i;
    this.choose({ kind: 'tokens', q, from: Math.min(anchor, i), to: Math.max(anchor, i) + 1 }, reveal, [q, i]);
    this.anchor = anchor;
  }
  // Make a pick the selection; `focus` is the token that the arrows go on from.
  choose(pick, reveal, focus) {
    this.pick = pick;
    this.resolve(focus);
    this.mark();
    if (reveal && this.link) this.reveal();
    this.drawCard(); this.say();
  }
  resolve(focus) {
    this.link = this.pick ? linkOf(this.state, this.pick) : null;
    this.selected = focus || this.firstToken(this.link);
    this.anchor = null;
  }
  firstToken(link) {
    if (!link) return null;
    for (const q of link.q === 1 ? [1, 0] : [0, 1]) if (link.panes[q].tokens.length) return [q, link.panes[q].tokens[0][0]];
    return null;
  }
  clear() { this.pick = this.link = this.selected = null; this.mark(); this.drawCard(); this.say(); }
  keepSelection() {
    this.point(null);
    const { pick } = this, { panes } = this.state;
    if (!pick) return;
    if (pick.kind === 'tokens' && pick.to > panes[pick.q].n) { this.clear(); return; }
    const focus = pick.kind === 'tokens' && this.selected ? this.selected : null, { anchor } = this;
    this.resolve(focus); this.anchor = anchor;
    this.drawCard();
  }
  // What the mouse is over; null for nothing.
  point(pick) {
    if (samePick(pick, this.pointed)) return;
    this.pointed = pick;
    this.hoverLink = pick ? linkOf(this.state, pick) : null;
    this.mark();
    if (!this.selected) this.drawCard();
  }
  // Bring the selection into sight in every grid that is drawn, and in the editors.
  reveal() {
    for (const [grid, view] of this.spots()) {
      if (view === 'template') this.face(grid);
      const at = this.placeIn(grid, view);
      if (at !== null) grid.reveal(at);
    }
    for (const editor of this.editors) if (document.activeElement !== editor.area) editor.reveal();
  }
  // Let the first linked lines of both templates stand side by side; the line that was pointed at stays where it is.
  face(grid) {
    const lines = this.link.panes.map((part) => Math.min(...part.lines)), q = this.link.q === 1 ? 1 : 0, apart = lines[0] - lines[1];
    if (!lines.every(Number.isFinite)) return;
    const shift = [Math.max(0, -apart), Math.max(0, apart)], y = () => LINE * grid.lineOf(q, Math.min(grid.model.rows, grid.model.rowOf(q, lines[q])), 0);
    if (shift[0] === this.state.shift[0] && shift[1] === this.state.shift[1]) return;
    const before = y();
    this.state.shift = shift;
    grid.set(this.modelOf('template', grid), true);
    grid.view.scrollTop += y() - before;
  }
  placeIn(grid, view) {
    const { model } = grid;
    if (view !== 'template') { if (!model.place || !this.selected) return null; const [q, i] = this.selected, [k, j] = model.place(q, i); return grid.lineOf(q, k, j); }
    for (const q of this.link.q === 1 ? [1, 0] : [0, 1]) {
      const lines = [...this.link.panes[q].lines].sort((x, y) => x - y);
      if (lines.length) return model.rowOf(q, lines[0]) < model.rows ? grid.lineOf(q, model.rowOf(q, lines[0]), 0) : null;
    }
    return null;
  }
  // Light what the selection and the mouse point at, in every view that is drawn, both panes, and the editors.
  mark() {
    for (const [node, cls] of this.marked) node.classList.remove(cls);
    this.marked = [];
    const put = (node, cls) => { node.classList.add(cls); this.marked.push([node, cls]); };
    for (const [link, own, linked] of [[this.hoverLink, 'ti-hv', 'ti-hl'], [this.link, 'ti-on', 'ti-lk']]) {
      if (!link) continue;
      for (const [grid, view] of this.spots()) link.panes.forEach((part, q) => this.markPart(grid, view, q, part, link.q === null || link.q === q ? own : linked, put));
    }
    this.lightEditors({ 'ti-on': this.link ? this.link.fields : [], 'ti-hv': this.hoverLink ? this.hoverLink.fields : [] });
    const grid = this.$('.ti-grid');
    if (this.selected) grid.setAttribute('aria-activedescendant', FLOW.uid + '-' + this.selected[0] + '-' + this.selected[1]); else grid.removeAttribute('aria-activedescendant');
  }
  lightEditors(layers) {
    if (this.lit || Object.values(layers).some((fields) => fields.length)) this.lit = this.editors.map((editor) => editor.light(layers)).some(Boolean);
  }
  markPart(grid, view, q, part, cls, put) {
    if (view === 'template') { this.markLines(grid, q, part.lines, cls, put); return; }
    const pane = this.state.panes[q], inTokens = (i) => part.tokens.some(([from, to]) => i >= from && i < to);
    const few = part.tokens.length <= 8;
    for (const node of grid.space.querySelectorAll('[data-q="' + q + '"]')) {
      const i = node.dataset.i;
      const lit = i === undefined ? touches(part.bytes, +node.dataset.b, +node.dataset.e) : few || pane.start[i] === pane.end[i] ? inTokens(+i) : touches(part.bytes, pane.start[i], pane.end[i]);
      if (lit) put(node, cls);
    }
  }
  markLines(grid, q, lines, cls, put) {
    if (!lines.size) return;
    for (const [v, node] of grid.live) {
      if (!lines.has(grid.model.lineAt(q, lastAtMost(grid.top, v, grid.model.rows)))) continue;
      const column = node.querySelector('.ti-col' + q);
      if (column) put(column, cls);
    }
  }
  // Say the selection to screen readers: what it is, where it comes from, what it corresponds to.
  say() {
    clearTimeout(this.sayTimer);
    this.sayTimer = setTimeout(() => { this.$('.ti-say').textContent = this.link ? this.spoken() : ''; }, 120);
  }
  spoken() {
    const said = [];
    this.link.panes.forEach((part, q) => {
      const pane = this.state.panes[q], count = part.tokens.reduce((sum, [i, j]) => sum + j - i, 0);
      if (!count && !part.lines.size) return;
      const one = count === 1 ? ' ' + pane.piece(part.tokens[0][0]) : '', lines = [...part.lines].sort((x, y) => x - y);
      said.push('AB'[q] + ': ' + t('count_tokens', { n: number(count) }) + one + (lines.length ? ', ' + t('template_lines', { lines: lines.slice(0, 5).join(', ') + (lines.length > 5 ? ' \u2026' : '') }) : ''));
    });
    const paths = [...new Set((this.pick.kind === 'fields' ? this.pick.fields : this.link.fields).map((field) => pathText(field.steps)))];
    if (paths.length) said.push(t('from_fields', { paths: paths.slice(0, 3).join(', ') + (paths.length > 3 ? ' \u2026' : '') }));
    return said.join('; ') || t('nothing_linked');
  }

  // ---- jumps ----------------------------------------------------------------------------------------------------
  pickPart(q, key) { this.choose({ kind: 'part', q, key }, true); }
  pickLine(q, line) { this.choose({ kind: 'line', q, line }, true); }
  textAt(path) {
    const steps = splitPath(path), editor = steps && this.editorOf({ steps, from: null, to: null });
    if (!editor) return '';
    const node = editor.scan().byKey.get(keyOf(steps));
    return node && node.kind === 'string' ? JSON.parse(editor.area.value.slice(node.from, node.to)) : '';
  }
  // A filled tools or documents editor wins over the same field of a whole request in the messages editor.
  editorOf(field) { return [...this.editors].reverse().find((editor) => editor.place(field)) || null; }
  // Show tokens [from, to) of the library's ids in the Tokens view.
  go(q, from, to) {
    if (this.state.safeOn) { this.state.safeOn = false; this.show(this.state.own); }
    const { view } = this;
    if (!VIEW_MODELS[view].flow) this.open('tokens');
    this.choose({ kind: 'tokens', q, from, to }, true, [q, from]);
    this.$('.ti-grid').focus();
    this.back = { view, selected: null };
  }
  // From the Control view to the origin of one of its tokens.
  jumpFrom(q, i, where) {
    const { view } = this;
    if (this.state.safeOn) { this.state.safeOn = false; this.show(this.state.own); }
    this.choose({ kind: 'tokens', q, from: i, to: i + 1 }, false, [q, i]);
    this.jump(where, view);
  }
  // To the origin of the selection: its text in an editor, or the template line that wrote it.
  jump(where, from) {
    if (!this.link) return;
    const fields = this.pick.kind === 'fields' ? this.pick.fields : this.link.fields, { selected } = this, back = { view: from || this.view, pick: this.pick, selected };
    const field = where === 'line' ? null : fields.find((each) => this.editorOf(each));
    if (field) {
      this.back = back;
      const editor = this.editorOf(field);
      this.$('.ti-input').open = true;
      this.quiet = performance.now() + 400;  // the caret is put there by us: the selection stays what it is
      editor.go(editor.place(field));
      this.tell(t('jumped_to', { place: pathText(field.steps) }));
      return;
    }
    const q = this.link.q === 1 ? 1 : 0, lines = [...this.link.panes[q].lines];
    if (!lines.length) { this.tell(t('no_origin')); return; }
    this.back = back;
    if (this.view !== 'template') this.open('template');
    this.reveal();
    this.$('.ti-grid').focus();
    this.tell(t('jumped_to', { place: t('template_line', { n: Math.min(...lines) }) }));
  }
  // To the tokens of a template line.
  jumpToTokens() {
    const first = this.firstToken(this.link);
    if (!first) { this.tell(t('nothing_linked')); return; }
    const back = { view: this.view, pick: this.pick, selected: this.selected };
    this.open('tokens');
    this.$('.ti-grid').focus();
    this.back = back;
    this.say();
  }
  // Back to where the last jump began; from an editor without one, to the tokens its caret points at.
  goBack() {
    const { back } = this;
    this.back = null;
    if (back) {
      if (back.view !== this.view) this.open(back.view);
      if (back.pick && !(back.pick.kind === 'tokens' && back.pick.to > this.state.panes[back.pick.q].n)) this.choose(back.pick, true, back.selected);
    } else if (document.activeElement && document.activeElement.closest('.ti-edit')) {
      if (!VIEW_MODELS[this.view].flow && this.view !== 'template') this.open('tokens'); else if (this.link) this.reveal();
    } else { this.clear(); return; }
    this.$(VIEW_MODELS[this.view].panel ? '.ti-panel' : '.ti-grid').focus();
  }
  tell(text) { clearTimeout(this.sayTimer); this.$('.ti-say').textContent = text; }
  caretMoved() {
    const editor = this.editors.find((each) => each.area === document.activeElement);
    if (!editor || performance.now() < (this.quiet || 0)) return;
    clearTimeout(this.caretTimer);
    const typed = performance.now() - (this.typedAt || -1000) < 300;
    this.caretTimer = setTimeout(() => {
      if (this.inFlight || this.dirty) return;
      const fields = editor.fieldsAtCaret(), pick = { kind: 'fields', fields };
      if (!fields.length) { if (this.pick && this.pick.kind === 'fields') this.clear(); return; }
      if (!samePick(pick, this.pick)) this.choose(pick, !typed);
    }, 60);
  }
  difference(step) {
    const { rows } = this.state, at = this.selected ? rows.ofToken(...this.selected) : -1;
    const differs = (k) => rows.tag[k] === TEXT_DIFFERS || rows.tag[k] === IDS_DIFFER;
    let k = at + step;
    if (at >= 0) while (k >= 0 && k < rows.n && differs(k) && differs(k - step)) k += step;
    while (k >= 0 && k < rows.n && !differs(k)) k += step;
    if (step < 0) while (k > 0 && differs(k) && differs(k - 1)) k--;
    if (k < 0 || k >= rows.n) return;
    const own = this.selected ? this.selected[0] : 0;
    for (const q of [own, 1 - own]) if (rows.token[q][k] < rows.token[q][k + 1]) { this.select(q, this.firstChanged(q, k), true); return; }
  }
  firstChanged(q, k) {
    const { rows, panes } = this.state, changed = changedBytes(rows, q, k);
    let i = rows.token[q][k];
    if (changed) while (i + 1 < rows.token[q][k + 1] && panes[q].end[i] <= changed[0]) i++;
    else if (rows.tag[k] === IDS_DIFFER) { const from = rows.token[1 - q][k]; while (i + 1 < rows.token[q][k + 1] && panes[q].ids[i] === panes[1 - q].ids[from + i - rows.token[q][k]]) i++; }
    return i;
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || VIEW_MODELS[this.view].panel) return;
    const act = (this.templateHas(event) ? this.lineKeys() : this.tokenKeys(event.shiftKey))[event.key];
    if (!act) return;
    event.preventDefault(); event.stopPropagation();
    act();
  }
  templateHas(event) { return this.view === 'template' || event.currentTarget.classList.contains('ti-second'); }
  tokenKeys(extend) {
    const { panes } = this.state, [q, i] = this.selected || [0, -1], to = (k) => this.select(q, k, true, extend);
    return {
      ArrowRight: () => to(i + 1), ArrowLeft: () => to(Math.max(0, i - 1)),
      ArrowDown: () => this.vertical(q, i, 1, extend), ArrowUp: () => this.vertical(q, i, -1, extend),
      Home: () => to(0), End: () => to(panes[q].n - 1),
      PageDown: () => this.vertical(q, i, this.page(), extend), PageUp: () => this.vertical(q, i, -this.page(), extend),
      '[': () => this.across(q, i), ']': () => this.across(q, i),
      n: () => this.difference(1), p: () => this.difference(-1),
      Enter: () => this.jump(), g: () => this.jump(), l: () => this.jump('line'), Escape: () => this.goBack(),
    };
  }
  // In the template the arrows go from one line that wrote bytes to the next.
  lineKeys() {
    const q = this.pick && this.pick.kind === 'line' ? this.pick.q : this.link && this.link.q === 1 ? 1 : 0, lines = (k) => Array.from(new Set(this.state.panes[k].segments.line)).filter((line) => line > 0).sort((x, y) => x - y);
    const own = lines(q), here = this.link ? Math.min(...this.link.panes[q].lines, Infinity) : Infinity;
    const step = (d) => { const next = d > 0 ? own.find((line) => here === Infinity || line > here) : own.filter((line) => line < here).pop(); if (next !== undefined) this.pickLine(q, next); };
    const cross = () => { const there = this.link ? [...this.link.panes[1 - q].lines] : [], all = lines(1 - q); if (there.length || all.length) this.pickLine(1 - q, there.length ? Math.min(...there) : all[0]); };
    return {
      ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => step(1), ArrowLeft: () => step(-1),
      Home: () => { if (own.length) this.pickLine(q, own[0]); }, End: () => { if (own.length) this.pickLine(q, own[own.length - 1]); },
      '[': cross, ']': cross, Enter: () => this.jumpToTokens(), g: () => this.jumpToTokens(), Escape: () => this.goBack(),
    };
  }
  page() { return Math.max(1, Math.floor(this.$('.ti-grid').clientHeight / LINE) - 2); }
  vertical(q, i, step, extend) {
    const { model } = this.grid;
    if (i < 0) { this.select(q, 0, true); return; }
    if (!model.layout) { this.select(q, Math.max(0, Math.min(this.state.panes[q].n - 1, i + step)), true, extend); return; }
    const { lineToken } = model.layout[q], line = lastAtMost(lineToken, i, lineToken.length), to = Math.max(0, Math.min(lineToken.length - 1, line + step));
    if (to === line) return;
    const end = to + 1 < lineToken.length ? lineToken[to + 1] : this.state.panes[q].n;
    this.select(q, Math.min(end - 1, lineToken[to] + i - lineToken[line]), true, extend);
  }
  across(q, i) {
    if (i < 0) { this.select(1 - q, 0, true); return; }
    const link = this.state.rows.linked(q, i), k = this.state.rows.ofToken(q, i);
    this.select(1 - q, link ? link[0] : Math.min(this.state.rows.token[1 - q][k], this.state.panes[1 - q].n - 1), true);
  }

  // ---- the card -------------------------------------------------------------------------------------------------
  drawCard() {
    const card = this.$('.ti-card'), link = this.link || this.hoverLink, cells = [];
    card.replaceChildren();
    const own = link && (this.link ? this.selected : this.firstToken(link));
    if (!own) { if (link || !VIEW_MODELS[this.view].panel) card.append(el('p', 'ti-dim', t(link ? 'nothing_linked' : 'card_hint'))); return; }
    const [q, i] = own, alone = this.pick && this.pick.kind !== 'tokens' ? link.panes[q].tokens : [[i, i + 1]], there = link.panes[1 - q].tokens;
    cells[q] = this.tokenCard(q, i, alone);
    cells[1 - q] = there.length ? this.tokenCard(1 - q, there[0][0], there) : this.noCard(1 - q);
    card.append(...cells);
  }
  noCard(q) { const node = el('div', 'ti-about'); node.append(el('b', '', 'AB'[q]), el('span', 'ti-dim', ' ' + t('no_counterpart'))); return node; }
  tokenCard(q, i, ranges) {
    const count = ranges.reduce((sum, [a, b]) => sum + b - a, 0), near = ranges.length === 1;
    const pane = this.state.panes[q], node = el('div', 'ti-about'), bytes = pane.slice(i), own = pane.idBytes(i);
    const put = (key, text, cls) => { const pair = el('span', 'ti-fact'); pair.append(el('span', 'ti-key', key), el('span', cls || '', text)); node.append(pair); };
    node.append(el('b', '', 'AB'[q] + ' #' + i + (count > 1 ? (near ? '\u2013' + (ranges[0][1] - 1) : ' \u2026') : '')));
    if (count > 1) put('', t('count_tokens', { n: number(count) }));
    put(t('id'), String(pane.ids[i]) + (count > 1 ? ' \u2026' : ''), 'ti-strong');
    put(t('piece'), show(pane.piece(i)), 'ti-piece');
    put(t('bytes'), bytes.length ? hex(bytes.subarray(0, 48)) + (bytes.length > 48 ? ' \u2026 (' + bytes.length + ')' : '') : t('no_bytes'));
    if (own !== null && own !== hex(bytes)) put(t('id_bytes'), own || t('no_bytes'));
    put(t('code_points'), this.points(pane, i));
    put(t('span'), pane.start[i] + '\u2013' + pane.end[i]);
    const names = Object.keys(FLAG).filter((flag) => pane.has(i, flag));
    put(t('flags'), names.length ? names.map((flag) => t('flag_' + flag)).join(', ') : t('no_flags'), names.some((flag) => ['from_content', 'crosses_segment'].includes(flag)) ? 'ti-hot' : '');
    put(t('origin'), originText(pane.origin(i)));
    return node;
  }
  points(pane, i) {
    const from = pane.groupStart(i), to = pane.groupEnd(i), text = pane.text(pane.start[from], pane.end[to - 1]);
    const all = Array.from(text), head = all.slice(0, 12).map((c) => 'U+' + codePoint(c)).join(' ') + (all.length > 12 ? ' \u2026' : '');
    return to - from > 1 ? t('part_of', { points: head, part: i - from + 1, of: to - from }) : head || t('no_bytes');
  }

  // ---- events ---------------------------------------------------------------------------------------------------
  listen() {
    const grid = this.$('.ti-grid');
    for (const node of this.root.querySelectorAll('.ti-fields [data-in]')) {
      // `input` fires for keys, paste, cut, backspace and drops; text under composition waits for its end.
      node.addEventListener('input', (event) => { if (!event.isComposing) this.changed(); });
      node.addEventListener('compositionend', () => this.changed());
    }
    this.root.addEventListener('click', (event) => { const act = event.target.closest('[data-act]'); if (act) this.act(act.dataset.act); });
    this.field('model').addEventListener('change', () => { this.modelChosen(); if (!this.field('model_ref').hidden) this.field('model_ref').focus(); });
    this.compareLine.addEventListener('click', () => this.goToDifference());
    for (const [view, name] of [[grid, () => this.view], [this.$('.ti-second'), () => 'template']]) {
      view.addEventListener('mouseover', (event) => { if (!event.buttons) this.hover(event, name()); });
      view.addEventListener('mouseleave', () => this.point(null));
      view.addEventListener('click', (event) => this.click(event, name()));
      view.addEventListener('keydown', (event) => this.key(event));
    }
    grid.addEventListener('mouseup', () => this.pickDragged());
    document.addEventListener('selectionchange', () => this.caretMoved());
    for (const { area } of this.editors) {
      area.addEventListener('input', () => { this.typedAt = performance.now(); });
      area.addEventListener('focus', () => this.caretMoved());
      area.addEventListener('keydown', (event) => { if (event.key === 'Escape' && !event.isComposing) { event.preventDefault(); this.goBack(); } });
    }
    this.$('.ti-panel').addEventListener('keydown', (event) => { if (event.key === 'Escape' && this.back) { event.preventDefault(); this.goBack(); } });
    this.$('.ti-tabs').addEventListener('keydown', (event) => this.tabKey(event));
  }
  act(name) {
    if (name === 'language') { language = language === 'en' ? 'zh' : 'en'; keep('localStorage', 'language', language); this.localize(); }
    if (name === 'dark') keep('localStorage', 'dark', document.body.classList.toggle('dark') ? '1' : '0');
    if (name === 'reset') { this.put(this.initial); this.changed(); }
    if (name === 'retry') { this.$('[data-act="retry"]').hidden = true; this.changed(); }
    if (name === 'cancel') this.cancel();
  }
  goToDifference() {
    const d = this.answer.comparison.first_difference, q = d.token_a !== null ? 0 : 1;
    if (!VIEW_MODELS[this.view].flow) this.open('tokens');
    this.select(q, Math.min(q ? d.token_b : d.token_a, this.state.panes[q].n - 1), true);
    this.$('.ti-grid').focus();
  }
  tokenOf(target) {
    const node = target.closest('[data-i], [data-b]');
    if (node) { const q = +node.dataset.q; return node.dataset.i !== undefined ? [q, +node.dataset.i] : [q, this.state.panes[q].tokenAt(+node.dataset.b)]; }
    const group = target.closest('.ti-group');
    if (group) return this.tokenOf(group.querySelector('[data-i]'));
    return null;
  }
  // A line of the template: [pane, line].
  lineOf(target) {
    const column = target.closest('.ti-col:not(.ti-void)');
    if (!column) return null;
    const q = column.classList.contains('ti-col1') ? 1 : 0, grid = column.closest('.ti-second') ? this.second : this.grid, v = +column.parentNode.getAttribute('aria-rowindex') - 1;
    return [q, grid.model.lineAt(q, lastAtMost(grid.top, v, grid.model.rows))];
  }
  pickOf(target, view) {
    if (view === 'template') { const line = this.lineOf(target); return line && { kind: 'line', q: line[0], line: line[1] }; }
    const token = this.tokenOf(target);
    return token && token[1] >= 0 ? { kind: 'tokens', q: token[0], from: token[1], to: token[1] + 1 } : null;
  }
  hover(event, view) {
    const pick = this.pickOf(event.target, view);
    if (pick) this.point(pick);
  }
  click(event, view) {
    if (this.dragged) { this.dragged = false; return; }
    const pick = this.pickOf(event.target, view);
    if (!pick) return;
    this.back = null;
    if (pick.kind === 'line') this.choose(pick, true); else this.select(pick.q, pick.from, true, event.shiftKey);
  }
  // Text that was selected with the mouse in a flow of tokens, bytes or text is a range of bytes.
  pickDragged() {
    const chosen = window.getSelection(), nodeOf = (node) => (node.nodeType === 1 ? node : node.parentNode).closest('[data-q]');
    this.dragged = false;
    if (!VIEW_MODELS[this.view].flow || !chosen || chosen.isCollapsed || !chosen.rangeCount) return;
    const range = chosen.getRangeAt(0), a = nodeOf(range.startContainer), b = nodeOf(range.endContainer);
    if (!a || !b || a === b || a.dataset.q !== b.dataset.q || !this.$('.ti-grid').contains(a)) return;
    const q = +a.dataset.q, [from, to] = [this.edge(q, a, range.startContainer, range.startOffset)[0], this.edge(q, b, range.endContainer, range.endOffset)[1]];
    if (to <= from) return;
    this.dragged = true;
    this.back = null;
    this.choose({ kind: 'bytes', q, from, to }, false);
  }
  // Bytes [from, to) at an end of a mouse selection: exact where a cell shows plain text, else the whole cell.
  edge(q, node, container, offset) {
    const pane = this.state.panes[q], i = node.dataset.i, [from, to] = i === undefined ? [+node.dataset.b, +node.dataset.e] : [pane.start[i], pane.end[i]];
    const exact = i === undefined && container.nodeType === 3 && container.length === to - from && isPlain(pane.bytes, from, to);
    return exact ? [from + offset, from + offset] : [from, to];
  }
  tabKey(event) {
    const at = this.tabs.findIndex((tab) => tab.dataset.view === this.view), to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = this.tabs[(to + this.tabs.length) % this.tabs.length];
    this.open(tab.dataset.view); tab.focus();
  }
  observe() {
    const fit = () => {
      const narrow = this.root.clientWidth < 640;
      if (narrow !== this.root.classList.contains('narrow') || this.width === undefined) { this.root.classList.toggle('narrow', narrow); this.$('.ti-input').open = !narrow; }
      const width = this.$('.ti-grid').clientWidth;
      if (width !== this.width && width) { this.width = width; this.draw(true); } else { this.grid.paint(); if (this.splits()) this.second.paint(); }
    };
    new ResizeObserver(fit).observe(this.$('.ti-body'));
    fit();
  }
}

// Rows when only one pane is new: paired by number, and no claim about what is equal.
const unaligned = (panes, cuts) => {
  const own = panes.map((pane, q) => (cuts[q] ? cuts[q] : new Uint32Array([0, pane.n]))), n = Math.max(...own.map((cut) => cut.length - 1), 1);
  const rows = Object.create(Rows.prototype);
  rows.n = n; rows.panes = panes; rows.tag = new Uint8Array(n);
  rows.token = own.map((cut, q) => Uint32Array.from({ length: n + 1 }, (_, k) => (k < cut.length ? cut[k] : panes[q].n)));
  rows.linked = () => null; rows.unaligned = true;
  return rows;
};

element.bench = new Bench(element.querySelector('.ti'), server, JSON.parse(props.value));
