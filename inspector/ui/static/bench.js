// The page's controller: builds the page from its start value, reads the fields, listens. What else it does is in parts,
// one file each: asking, answers, panes, drawing, toolbar, selection, jumps, keys, mouse, card, permalink, sharing, status, gallery, datasets, printing.

const EDITORS = ['messages', 'tools', 'documents', 'arguments'];

// What a reload keeps: language and theme in this browser, the inputs in this tab. Where the browser refuses to store
// (blocked, or more than it allows), nothing is kept, and the page works the same.
const stored = (store, key) => { try { return window[store].getItem('inspector-' + key); } catch (error) { return null; } };
const keep = (store, key, value) => { try { window[store].setItem('inspector-' + key, value); } catch (error) { /* nothing is kept */ } };

class Bench {
  constructor(root, config) {
    Object.assign(this, { root, config });
    this.$ = (selector) => root.querySelector(selector);
    this.session = Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
    this.server = new Server(config.functions, this.session, config.most_bytes, (text) => { this.status(text, text ? 'busy' : ''); this.showAge(); });
    strings = config.strings;
    language = stored('localStorage', 'language') ?? ((navigator.language || '').startsWith('zh') ? 'zh' : 'en');
    if (!(language in strings)) language = 'en';
    const dark = stored('localStorage', 'dark');
    if (dark !== null) document.body.classList.toggle('dark', dark === '1');
    const panes = config.defaults.panes.map(() => new Pane()), rows = new Rows(panes, panes.map(() => true));
    this.names = new Map(); this.held = new Map(); this.mergesKnown = new Map();
    this.state = { panes, rows, own: { panes, rows }, colour: 'alternate', stale: panes.map(() => true), logits: null, records: panes.map(() => ''), control: null, safeOn: false, safe: null, shift: panes.map(() => 0), faced: panes.map(() => null) };
    this.slots = panes.map(() => new Slot()); this.at = 0; this.began = performance.now(); this.showTimer = 0; this.compareLines = [];
    this.view = config.views[0].id; this.selected = null; this.pick = null; this.link = null; this.pointed = null; this.hoverLink = null; this.back = null; this.split = false; this.folded = false; this.opened = new Set(); this.marked = [];
    this.grid = new Grid(this.$('.ti-grid'), this.$('.ti-space'), () => root.classList.contains('narrow'));
    this.second = new Grid(this.$('.ti-second'), this.$('.ti-second .ti-space'), () => root.classList.contains('narrow'));
    this.grid.painted = this.second.painted = () => this.mark();
    this.build(); this.restore(); this.localize(); this.listen(); this.observe();
    this.begin();
  }
  build() {
    for (const box of this.root.querySelectorAll('.ti-fields .ti-field')) {
      const input = box.querySelector('[data-in]'), label = box.querySelector('label'), err = box.querySelector('.ti-err'), id = FLOW.uid + '-' + box.dataset.field;
      input.id = id; label.htmlFor = id; err.id = id + '-err'; input.setAttribute('aria-describedby', err.id);
      if (input.tagName !== 'SELECT') { input.spellcheck = false; input.autocomplete = 'off'; }
    }
    for (const name of ['profile', 'policy']) for (const value of this.config[name]) { const option = el('option', '', value); option.value = value; this.field(name).append(option); }
    for (const value of [...this.config.models, CUSTOM]) { const option = el('option', '', value); option.value = value; this.field('model').append(option); }
    for (const [name, value] of Object.entries(this.config.defaults.fields)) { const node = this.field(name); if (node.type === 'checkbox') node.checked = value; else node.value = value; }
    this.compareBox = el('div', 'ti-compares');
    this.editors = EDITORS.map((name) => new Editor(name, this.field(name)));
    this.writing = new Writing(this);
    this.general = el('p', 'ti-err ti-general'); this.general.hidden = true; this.general.setAttribute('role', 'alert');
    this.$('.ti-heads').append(this.compareBox, this.general);
    this.buildHeads(this.state.panes.length);
    this.tabs = this.config.views.map((view) => this.tab(view));
    this.$('.ti-tabs').append(...this.tabs);
  }
  // Every input of the form and of the heads, by name; `panes` is how many there are.
  inputs(panes = this.paneList()) { return { panes: String(panes.length), ...this.formInputs(), ...Object.assign({}, ...panes.map((values, q) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name + q, value])))) }; }
  formInputs(but = []) { return Object.fromEntries(Array.from(this.root.querySelectorAll('.ti-fields [data-in]')).filter((node) => !but.includes(node.dataset.in)).map((node) => [node.dataset.in, node.type === 'checkbox' ? node.checked : node.value])); }
  put(values) {
    const named = Object.keys(values).map((name) => (/^tokenizer(\d)$/.exec(name) || [])[1]).filter(Boolean), count = +values.panes || Math.max(this.heads.length, ...named.map((q) => +q + 1));
    this.setPaneCount(Math.min(MOST_PANES, Math.max(FEWEST_PANES, count)));
    this.fill(values);
    this.heads.forEach((head) => head.chosen());
  }
  fill(values) {
    for (const node of this.root.querySelectorAll('.ti-fields [data-in], .ti-head [data-in]')) {
      const value = values[node.dataset.in];
      if (node.type === 'checkbox') { if (typeof value === 'boolean') node.checked = value; continue; }
      if (typeof value !== 'string' || (node.tagName === 'SELECT' && !Array.from(node.options).some((option) => option.value === value))) continue;
      node.value = value;
    }
    this.modelChosen();
  }
  restore() {
    this.initial = this.inputs();
    let saved = null;
    try { saved = JSON.parse(stored('sessionStorage', 'inputs')); } catch (error) { /* another version's: the example it is */ }
    if (saved && typeof saved === 'object') { this.restored = saved; this.put(saved); }
    this.writing.restore();
    addEventListener('pagehide', () => keep('sessionStorage', 'inputs', JSON.stringify(this.inputs())));
  }
  field(name) { return this.$('[data-in="' + name + '"]'); }
  localizeIn(host) {
    for (const node of host.querySelectorAll('[data-t]')) node.textContent = t(node.dataset.t);
    for (const node of host.querySelectorAll('[data-tl]')) node.setAttribute('aria-label', t(node.dataset.tl));
    for (const node of host.querySelectorAll('[data-tp]')) node.placeholder = t(node.dataset.tp);
  }
  localize() {
    this.root.lang = document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    this.localizeIn(this.root);
    this.heads.forEach((head) => head.localize());
    this.writing.localize();
    this.config.views.forEach((view, k) => { this.tabs[k].textContent = t('view_' + view.id); });
    this.$('.ti-grid').setAttribute('aria-label', t('grid_label'));
    this.$('.ti-second').setAttribute('aria-label', t('view_template'));
    this.field('model').lastChild.textContent = t('custom_ref');
    this.showNotice(); if (this.$('.ti-gallery').open) this.drawExamples();
    this.markTabs(); this.drawTools();
    this.localizePanes();
    if (this.slots.some((slot) => slot.answered)) this.showAnswers(false); else this.draw(true);
    this.drawCard();
  }
  read() {
    const value = (name) => this.field(name).value, fields = {}, options = Object.fromEntries(['add_generation_prompt', 'whole_turns'].map((name) => [name, this.field(name).checked]));
    for (const name of ['messages', 'tools', 'documents', 'arguments']) fields[name] = value(name);
    for (const name of ['clock', 'profile', 'context_window', 'max_new_tokens', 'policy', 'first_turns', 'document_order', 'media', 'image_tokens']) options[name] = value(name).trim();
    return { fields, panes: this.heads.map((head, q) => ({ ...options, ...head.read(), slot: this.slots[q].key })) };
  }
  modelRef() { const model = this.field('model').value; return model === CUSTOM ? this.field('model_ref').value.trim() : model; }
  modelChosen() { const ref = this.field('model_ref'); ref.hidden = this.field('model').value !== CUSTOM; }
  // The same, at the time that the shown answer was rendered at: what is asked for later describes what is in sight.
  readShown() {
    const request = this.read();
    request.panes.forEach((pane, q) => { pane.clock = pane.clock || this.state.own.panes[q].clock || ''; });
    return request;
  }
  listen() {
    const grid = this.$('.ti-grid');
    for (const node of this.root.querySelectorAll('.ti-fields [data-in]')) {
      // `input` fires for keys, paste, cut, backspace and drops; text under composition waits for its end.
      node.addEventListener('input', (event) => { if (!event.isComposing) this.changed(); });
      node.addEventListener('compositionend', () => this.changed());
    }
    this.root.addEventListener('click', (event) => { const act = event.target.closest('[data-act]'); if (act) this.act(act.dataset.act); });
    this.field('model').addEventListener('change', () => { this.modelChosen(); if (!this.field('model_ref').hidden) this.field('model_ref').focus(); });
    for (const [view, name] of [[grid, () => this.view], [this.$('.ti-second'), () => 'template']]) {
      view.addEventListener('mouseover', (event) => { if (!event.buttons) this.hover(event, name()); });
      view.addEventListener('mouseleave', () => this.point(null));
      view.addEventListener('click', (event) => this.click(event, name()));
      view.addEventListener('keydown', (event) => this.key(event));
    }
    grid.addEventListener('mouseup', () => this.pickDragged());
    document.addEventListener('selectionchange', () => this.caretMoved());
    document.addEventListener('keydown', (event) => this.keyAnywhere(event));
    for (const { area } of this.editors) {
      area.addEventListener('input', () => { this.typedAt = performance.now(); });
      area.addEventListener('focus', () => this.caretMoved());
      area.addEventListener('keydown', (event) => { if (event.key === 'Escape' && !event.isComposing) { event.preventDefault(); this.goBack(); } });
    }
    this.$('.ti-panel').addEventListener('keydown', (event) => { if (event.key === 'Escape' && this.back) { event.preventDefault(); this.goBack(); } });
    this.$('.ti-tabs').addEventListener('keydown', (event) => this.tabKey(event));
    this.listenKeys(); this.listenTabs(); listenRoving(this.root); this.listenShare(); this.listenGallery(); this.listenRecords(); this.listenPrint(); this.listenServer();
  }
  act(name) {
    if (name === 'language') { language = language === 'en' ? 'zh' : 'en'; keep('localStorage', 'language', language); this.localize(); }
    if (name === 'dark') { keep('localStorage', 'dark', document.body.classList.toggle('dark') ? '1' : '0'); if (VIEW_MODELS[this.view].panel) this.draw(true); }  // a picture has its colours written into it
    if (name === 'reset') { this.put(this.initial); this.changed(); this.panesOpened(); }
    if (name === 'retry') { this.$('[data-act="retry"]').hidden = true; this.changed(true); }
    if (name === 'cancel') this.cancel();
    if (name === 'examples') this.showExamples();
    if (name === 'share') this.share();
    if (name === 'skip') this.$(VIEW_MODELS[this.view].panel ? '.ti-panel' : '.ti-grid').focus();
    if (name === 'help') this.showHelp();
    if (name === 'copy-link') this.copyLink();
    if (name === 'save-state') this.saveState();
    if (name === 'close') document.activeElement.closest('dialog').close();
    if (name === 'add_pane') this.duplicatePane(this.heads.length - 1);
  }
  observe() {
    const fit = () => {
      const { classList } = this.root, narrow = classList.contains('printing') ? classList.contains('narrow') : this.root.clientWidth < 760;
      if (narrow !== this.root.classList.contains('narrow') || this.width === undefined) { this.root.classList.toggle('narrow', narrow); this.$('.ti-input').open = !narrow; if (VIEW_MODELS[this.view].panel) this.draw(true); }
      const width = this.$('.ti-grid').clientWidth;
      if (width !== this.width && width) { this.width = width; this.draw(true); } else { this.grid.paint(); if (this.splits()) this.second.paint(); }
    };
    new ResizeObserver(fit).observe(this.$('.ti-body'));
    fit();
  }
}
const mix = (Kind, ...parts) => { for (const { prototype } of parts) for (const [name, made] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) if (name !== 'constructor') Object.defineProperty(Kind.prototype, name, made); };
mix(Bench, Asking, Answers, Panes, Drawing, Toolbar, Selection, Jumps, Keys, Mouse, Card, Permalink, Sharing, Gallery, Records, Datasets, Printing, ServerStatus);

element.bench = new Bench(element.querySelector('.ti'), JSON.parse(props.value));
