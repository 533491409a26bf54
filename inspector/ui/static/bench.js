// The page's controller: reads the fields, asks the server, shows answers and errors, moves the selection.
// While a request is in flight, newer input only marks the page dirty; an older answer never replaces a newer one.

const OVERTAKE_MS = 1000;

class Bench {
  constructor(root, server, config) {
    Object.assign(this, { root, server, config });
    this.$ = (selector) => root.querySelector(selector);
    this.session = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
    strings = config.strings;
    language = (navigator.language || '').startsWith('zh') ? 'zh' : 'en';
    const empty = () => new Pane(config.empty);
    this.state = { panes: [empty(), empty()], rows: null, colour: 'alternate', stale: [true, true], logits: null, records: ['', ''] };
    this.state.rows = unaligned(this.state.panes, [null, null]);
    this.cuts = [null, null];
    this.view = config.views[0].id; this.selected = null; this.hovered = null; this.lastMs = 0; this.marked = [];
    this.grid = new Grid(this.$('.ti-grid'), this.$('.ti-space'), () => root.classList.contains('narrow'));
    this.grid.painted = () => this.mark();
    this.build(); this.localize(); this.listen(); this.observe();
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
    for (const [name, value] of Object.entries(this.config.defaults.fields)) { const node = this.field(name); if (node.type === 'checkbox') node.checked = value; else node.value = value; }
    this.heads = [0, 1].map((q) => new Head(q, this.config, () => this.changed()));
    this.compareLine = el('button', 'ti-compare'); this.compareLine.type = 'button';
    this.general = el('p', 'ti-err ti-general'); this.general.hidden = true; this.general.setAttribute('role', 'alert');
    this.$('.ti-heads').append(...this.heads.map((head) => head.node), this.compareLine, this.general);
    this.tabs = this.config.views.map((view) => this.tab(view));
    this.$('.ti-tabs').append(...this.tabs);
  }
  field(name) { return this.$('[data-in="' + name + '"]'); }
  tab(view) {
    const tab = el('button', 'ti-tab'); tab.type = 'button'; tab.dataset.view = view.id; tab.setAttribute('role', 'tab');
    tab.addEventListener('click', () => this.open(view.id));
    return tab;
  }
  localize() {
    this.root.lang = language === 'zh' ? 'zh-CN' : 'en';
    for (const node of this.root.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
    for (const node of this.root.querySelectorAll('[data-tl]')) node.setAttribute('aria-label', t(node.dataset.tl));
    for (const node of this.root.querySelectorAll('[data-tp]')) node.placeholder = t(node.dataset.tp);
    this.heads.forEach((head) => head.localize());
    this.config.views.forEach((view, k) => { this.tabs[k].textContent = t('view_' + view.id); });
    this.$('.ti-grid').setAttribute('aria-label', t('grid_label'));
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
  changed() {
    this.dirty = true;
    clearTimeout(this.timer);
    // No delay while answers are quick; a pause in typing is awaited only when they are not. A request that hangs is
    // overtaken: the server then gives it up for the newer one.
    const hangs = this.inFlight ? OVERTAKE_MS - (performance.now() - this.started) : 0;
    this.timer = setTimeout(() => this.ask(), Math.max(hangs, this.lastMs > 250 ? 120 : 0, 0));
  }
  async ask() {
    if (!this.dirty) return;
    const mine = (this.asked = (this.asked || 0) + 1), started = (this.started = performance.now());
    this.inFlight = true; this.dirty = false;
    const waiting = setTimeout(() => this.status(t('computing'), 'busy'), 200);
    const answer = await this.server.view({ session: this.session, ...this.read() });
    clearTimeout(waiting);
    if (mine > (this.shown || 0) && answer !== 'null') { this.shown = mine; this.arrived(answer, started); }
    if (mine !== this.asked) return;
    this.inFlight = false;
    this.root.dataset.ready = this.dirty ? '0' : '1';
    if (this.dirty) { clearTimeout(this.timer); this.changed(); }
  }
  arrived(answer, started) {
    this.lastMs = performance.now() - started;
    this.lost(typeof answer !== 'string');
    if (typeof answer !== 'string') return;
    this.showAnswer(JSON.parse(answer), true);
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
    if (answer.legend) { FLAG = answer.legend.flags; KINDS = answer.legend.kinds; if (fresh) this.drawTools(); }
    this.showErrors(answer.errors);
    if (fresh && answer.panes) {
      this.state.logitsStale = Boolean(this.state.logits);
      this.state.recordStale = true;
      const whole = answer.panes.every(Boolean);
      answer.panes.forEach((data, q) => { if (data) { this.state.panes[q] = new Pane(data); this.cuts[q] = u32(data.cuts); } });
      this.state.rows = whole ? new Rows(answer.rows, this.state.panes) : unaligned(this.state.panes, this.cuts);
      this.keepSelection();
    }
    const failed = (q) => !answer.panes || !answer.panes[q];
    this.stale([failed(0), failed(1)]);
    this.heads.forEach((head, q) => head.showCounts(this.state.panes[q]));
    this.showComparison(answer);
    this.draw(true);
    if (fresh && this.view === 'record') this.askRecord();
    if (fresh) this.askEstimate();
  }
  stale(flags) {
    this.state.stale = flags;
    flags.forEach((flag, q) => { this.root.classList.toggle('stale' + q, flag); this.heads[q].node.classList.toggle('ti-old', flag); this.heads[q].counts.title = flag ? t('stale') : ''; });
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
    line.textContent = t(d.byte === null ? 'first_difference_ids' : 'first_difference', { byte: number(d.byte ?? 0), a: d.token_a ?? '\u2013', b: d.token_b ?? '\u2013', reason: d.reason });
    line.title = t('go_to_difference');
  }

  // ---- drawing --------------------------------------------------------------------------------------------------
  draw(keepScroll) {
    const view = VIEW_MODELS[this.view], panel = this.$('.ti-panel'), body = this.$('.ti-grid');
    panel.hidden = !view.panel; body.hidden = Boolean(view.panel);
    if (view.panel) { view.panel(this.state, panel, this); return; }
    calibrate(this.$('.ti-space'));
    this.grid.set(view.model(this.state, this.grid.columnsFor({ panes: 2, gutterWidth: view.gutter })), keepScroll);
  }
  open(id) {
    this.view = id; this.markTabs(); this.drawTools(); this.draw(false);
    if (id === 'record') this.askRecord();
    if (id === 'logits' && !this.state.logitsBusy && (!this.state.logits || this.state.logitsStale)) this.askLogits();
    if (this.selected) this.reveal();
    this.drawCard();
  }
  markTabs() {
    for (const tab of this.tabs) { const on = tab.dataset.view === this.view; tab.setAttribute('aria-selected', on); tab.tabIndex = on ? 0 : -1; }
  }
  drawTools() {
    const tools = this.$('.ti-tools'); tools.replaceChildren();
    const button = (key, act) => { const node = el('button', 'ti-btn', t(key)); node.type = 'button'; node.addEventListener('click', act); tools.append(node); return node; };
    if (this.view === 'tokens') {
      tools.append(this.check('show_ids', FLOW.ids, (on) => { FLOW.ids = on; this.draw(true); }));
      tools.append(this.check('colour_origin', this.state.colour === 'origin', (on) => { this.state.colour = on ? 'origin' : 'alternate'; this.drawTools(); this.draw(true); }));
    }
    if (['tokens', 'rendered'].includes(this.view)) { button('previous_difference', () => this.difference(-1)); button('next_difference', () => this.difference(1)); }
    if (['tokens', 'bytes', 'rendered'].includes(this.view)) [0, 1].forEach((q) => { button('copy_' + (this.view === 'tokens' ? 'ids' : this.view === 'bytes' ? 'hex' : 'text'), () => this.copy(q)).prepend('AB'[q] + ' '); });
    if (this.view === 'record') [0, 1].forEach((q) => { button('copy_json', () => this.copy(q)).prepend('AB'[q] + ' '); });
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
    if (this.view === 'rendered' || (this.view === 'tokens' && this.state.colour === 'origin')) for (const kind of Object.values(KINDS)) item('ti-seg o-' + kind, t('kind_' + kind));
    if (this.view === 'tokens') for (const [flag, text] of [['special', 'flag_special'], ['added', 'flag_added'], ['inserted', 'flag_inserted'], ['from_content', 'flag_from_content'], ['look_alike', 'flag_look_alike']]) item('ti-tok k0 f-' + flag + (flag === 'from_content' ? ' f-special' : ''), (flag === 'from_content' ? '\u26a0' : flag === 'inserted' ? '\u2295' : '') + t(text));
    if (this.view === 'template') item('ti-ranmark', t('lines_that_wrote'));
    return node;
  }
  async copy(q) {
    const pane = this.state.panes[q];
    const text = { tokens: () => JSON.stringify(Array.from(pane.ids)), bytes: () => hex(pane.bytes), rendered: () => pane.text(0, pane.bytes.length), record: () => this.state.records[q] }[this.view]();
    const said = this.$('.ti-copied');
    try { await navigator.clipboard.writeText(text); said.textContent = t('copied'); } catch (error) { said.textContent = t('copy_failed'); }
    setTimeout(() => { said.textContent = ''; }, 2500);
  }

  // ---- answers that are asked for -------------------------------------------------------------------------------
  async askLogits() {
    Object.assign(this.state, { logitsBusy: true });
    if (this.view === 'logits') this.draw(true);
    const answer = await this.server.logits({ session: this.session, model: this.field('model').value.trim(), ...this.read() });
    Object.assign(this.state, { logitsBusy: false, logitsStale: false });
    if (typeof answer === 'string') this.state.logits = JSON.parse(answer); else this.lost(true);
    if (this.view === 'logits') this.draw(true);
  }
  async askRecord() {
    if (this.recordInFlight) { this.recordAgain = true; return; }
    this.recordInFlight = true;
    if (!this.state.records[0] && !this.state.records[1]) { this.state.records = [t('computing'), t('computing')]; this.draw(false); }
    const answer = await this.server.record({ session: this.session, ...this.read() });
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
    const text = await this.server.estimate({ session: this.session, openai_model: model, ...this.read() });
    this.estimateInFlight = false;
    if (typeof text === 'string') this.showEstimate(JSON.parse(text), line);
    if (this.estimateAgain) { this.estimateAgain = false; this.askEstimate(); }
  }
  showEstimate({ count, error }, line) {
    line.textContent = count ? [t('openai_estimate', { total: number(count.total), messages: number(count.message_tokens), tools: number(count.tool_tokens), model: count.resolved_model, encoding: count.encoding }), ...count.warnings].join('\n') : '';
    if (error && error.place) this.showFieldError(error);
  }

  // ---- selection ------------------------------------------------------------------------------------------------
  select(q, i, reveal) {
    const pane = this.state.panes[q];
    if (i < 0 || i >= pane.n) return;
    this.selected = [q, i];
    if (reveal) this.reveal();
    this.mark(); this.drawCard();
  }
  keepSelection() {
    this.hovered = null;
    if (this.selected && this.selected[1] >= this.state.panes[this.selected[0]].n) this.selected = null;
    this.drawCard();
  }
  reveal() {
    const { model } = this.grid, [q, i] = this.selected;
    if (VIEW_MODELS[this.view].panel) return;
    if (model.place) { const [k, j] = model.place(q, i); this.grid.reveal(this.grid.lineOf(q, k, j)); }
    else if (this.view === 'template') { const origin = this.state.panes[q].origin(i); if (origin && origin.line > 0) this.grid.reveal(this.grid.lineOf(q, origin.line - 1, 0)); }
  }
  // Mark the selected and the hovered token, and what they correspond to in the other pane.
  mark() {
    for (const [node, cls] of this.marked) node.classList.remove(cls);
    this.marked = [];
    const put = (node, cls) => { node.classList.add(cls); this.marked.push([node, cls]); };
    for (const [target, cls, linked] of [[this.hovered, 'ti-hv', 'ti-hl'], [this.selected, 'ti-on', 'ti-lk']]) {
      if (!target) continue;
      this.markTokens(target[0], target[1], target[1] + 1, cls, put);
      const link = this.state.rows.linked(...target);
      if (link) this.markTokens(1 - target[0], link[0], link[1], linked, put);
    }
    const grid = this.$('.ti-grid');
    if (this.selected) grid.setAttribute('aria-activedescendant', FLOW.uid + '-' + this.selected[0] + '-' + this.selected[1]); else grid.removeAttribute('aria-activedescendant');
  }
  markTokens(q, from, to, cls, put) {
    const pane = this.state.panes[q];
    if (this.view === 'tokens') {
      for (let i = from; i < Math.min(to, from + 2000); i++) { const node = document.getElementById(FLOW.uid + '-' + q + '-' + i); if (node) put(node, cls); }
    } else if (VIEW_MODELS[this.view].flow) {
      const a = pane.start[from], b = pane.end[to - 1];
      for (const node of this.$('.ti-space').querySelectorAll('[data-q="' + q + '"][data-b]')) if (+node.dataset.b < b && +node.dataset.e > a) put(node, cls);
    } else if (this.view === 'template') {
      const origin = pane.origin(from), line = origin ? origin.line - 1 : -1;
      if (line < 0 || line >= this.grid.model.rows) return;
      for (let j = 0; j < this.grid.model.lines(q, line); j++) { const node = this.grid.live.get(this.grid.lineOf(q, line, j)); if (node) put(node.querySelector('.ti-col' + q), cls); }
    }
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
    const { panes } = this.state, [q, i] = this.selected || [0, -1];
    const act = {
      ArrowRight: () => this.select(q, i + 1, true), ArrowLeft: () => this.select(q, Math.max(0, i - 1), true),
      ArrowDown: () => this.vertical(q, i, 1), ArrowUp: () => this.vertical(q, i, -1),
      Home: () => this.select(q, 0, true), End: () => this.select(q, panes[q].n - 1, true),
      PageDown: () => this.vertical(q, i, this.page()), PageUp: () => this.vertical(q, i, -this.page()),
      '[': () => this.across(q, i), ']': () => this.across(q, i),
      n: () => this.difference(1), p: () => this.difference(-1),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
  page() { return Math.max(1, Math.floor(this.$('.ti-grid').clientHeight / LINE) - 2); }
  vertical(q, i, step) {
    const { model } = this.grid;
    if (i < 0) { this.select(q, 0, true); return; }
    if (!model.layout) { this.select(q, Math.max(0, Math.min(this.state.panes[q].n - 1, i + step)), true); return; }
    const { lineToken } = model.layout[q], line = lastAtMost(lineToken, i, lineToken.length), to = Math.max(0, Math.min(lineToken.length - 1, line + step));
    if (to === line) return;
    const end = to + 1 < lineToken.length ? lineToken[to + 1] : this.state.panes[q].n;
    this.select(q, Math.min(end - 1, lineToken[to] + i - lineToken[line]), true);
  }
  across(q, i) {
    if (i < 0) { this.select(1 - q, 0, true); return; }
    const link = this.state.rows.linked(q, i), k = this.state.rows.ofToken(q, i);
    this.select(1 - q, link ? link[0] : Math.min(this.state.rows.token[1 - q][k], this.state.panes[1 - q].n - 1), true);
  }

  // ---- the card -------------------------------------------------------------------------------------------------
  drawCard() {
    const card = this.$('.ti-card'), target = this.selected || this.hovered;
    card.replaceChildren();
    if (!target) { card.append(el('p', 'ti-dim', t('card_hint'))); return; }
    const link = this.state.rows.linked(...target), cells = [];
    cells[target[0]] = this.tokenCard(target[0], target[1], 1);
    cells[1 - target[0]] = link ? this.tokenCard(1 - target[0], link[0], link[1] - link[0]) : this.noCard(1 - target[0]);
    card.append(...cells);
  }
  noCard(q) { const node = el('div', 'ti-about'); node.append(el('b', '', 'AB'[q]), el('span', 'ti-dim', ' ' + t('no_counterpart'))); return node; }
  tokenCard(q, i, count) {
    const pane = this.state.panes[q], node = el('div', 'ti-about'), bytes = pane.slice(i), own = pane.idBytes(i);
    const put = (key, text, cls) => { const pair = el('span', 'ti-fact'); pair.append(el('span', 'ti-key', key), el('span', cls || '', text)); node.append(pair); };
    node.append(el('b', '', 'AB'[q] + ' #' + i + (count > 1 ? '\u2013' + (i + count - 1) : '')));
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
    this.compareLine.addEventListener('click', () => this.goToDifference());
    grid.addEventListener('mouseover', (event) => this.hover(event));
    grid.addEventListener('mouseleave', () => { this.hovered = null; this.mark(); if (!this.selected) this.drawCard(); });
    grid.addEventListener('click', (event) => { const token = this.tokenOf(event.target); if (token) this.select(token[0], token[1], false); });
    grid.addEventListener('keydown', (event) => this.key(event));
    this.$('.ti-tabs').addEventListener('keydown', (event) => this.tabKey(event));
  }
  act(name) {
    if (name === 'language') { language = language === 'en' ? 'zh' : 'en'; this.localize(); }
    if (name === 'dark') document.body.classList.toggle('dark');
    if (name === 'retry') this.changed();
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
    const column = this.view === 'template' && target.closest('.ti-col');
    return column ? this.tokenOfLine(column) : null;
  }
  tokenOfLine(column) {
    const q = column.classList.contains('ti-col1') ? 1 : 0, pane = this.state.panes[q], v = +column.parentNode.getAttribute('aria-rowindex') - 1;
    const line = lastAtMost(this.grid.top, v, this.grid.model.rows) + 1, s = pane.segments.line.indexOf(line);
    return s < 0 ? null : [q, pane.tokenAt(pane.segments.start[s])];
  }
  hover(event) {
    const token = this.tokenOf(event.target);
    if (!token || (this.hovered && this.hovered[0] === token[0] && this.hovered[1] === token[1])) return;
    this.hovered = token; this.mark();
    if (!this.selected) this.drawCard();
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
      if (width !== this.width && width) { this.width = width; this.draw(true); } else this.grid.paint();
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
  rows.linked = () => null;
  return rows;
};

element.bench = new Bench(element.querySelector('.ti'), server, JSON.parse(props.value));
