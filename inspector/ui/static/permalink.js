// Part of Bench: the whole state of the page as a value - in the URL's fragment, in a file, in the history.
// A link is made only by the share button and by opening an example: each is a new entry of the history, and so is work on
// the panes. Between those, the entry is only brought up to date (after a pause), so that back, forward and reload give what
// was there with all edits, and typing makes no entries. A fragment that no longer says what is on the page is taken out of the URL.

const STATE_SCHEMA = 'page-state/1', MOST_LINK = 8000, MOST_UNPACKED = 4000000, MOST_FILE = 64000000, MOST_KEPT = 1000000, MOST_HELD = 20;
const PICKS = {
  tokens: (p) => whole(p.q) && whole(p.from) && whole(p.to) && p.from < p.to, bytes: (p) => whole(p.q) && whole(p.from) && whole(p.to) && p.from < p.to,
  line: (p) => whole(p.q) && whole(p.line), part: (p) => whole(p.q) && typeof p.key === 'string' && p.key.length < 300,
  fields: (p) => Array.isArray(p.fields) && p.fields.length <= 2000 && p.fields.every((field) => isPlainObject(field) && Array.isArray(field.steps) && field.steps.every((step) => typeof step === 'string' || whole(step)) && [field.from, field.to].every((n) => n === null || whole(n))),
};
const whole = (n) => Number.isSafeInteger(n) && n >= 0;
const isPlainObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const ownValue = (object, key) => (Object.prototype.hasOwnProperty.call(object, key) ? object[key] : undefined);

class Unreadable extends Error {}

// A state that may have come from anyone: what is not of the known shape is refused, names that are no input are left out.
const cleanState = (value, known) => {
  if (!isPlainObject(value) || ownValue(value, 'schema') !== STATE_SCHEMA) throw new Unreadable('state_other');
  const given = ownValue(value, 'inputs'), inputs = {}, pick = ownValue(value, 'pick'), switches = ownValue(value, 'switches');
  if (!isPlainObject(given)) throw new Unreadable('state_other');
  for (const name of Object.keys(given)) if (/^[a-z_]{1,40}\d{0,2}$/.test(name) && ['string', 'boolean'].includes(typeof given[name])) inputs[name] = given[name];
  const among = (name, names, otherwise) => (names.includes(ownValue(value, name)) ? value[name] : otherwise);
  const kind = isPlainObject(pick) && typeof pick.kind === 'string' && ownValue(PICKS, pick.kind);
  return {
    schema: STATE_SCHEMA, inputs, view: among('view', known.views, known.views[0]), colour: among('colour', known.colours, 'alternate'), example: among('example', known.examples, null),
    pick: kind && kind(pick) ? pick : null, switches: Object.fromEntries(['ids', 'split', 'safe', 'folded'].map((name) => [name, isPlainObject(switches) && switches[name] === true])),
  };
};
const parsedState = (text, known) => {
  let value;
  try { value = JSON.parse(text); } catch (error) { throw new Unreadable('state_garbled'); }
  return cleanState(value, known);
};

const toBase64Url = (bytes) => {
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
};
const fromBase64Url = (text) => {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) throw new Unreadable('state_garbled');
  try { return rawBytes(text.replaceAll('-', '+').replaceAll('_', '/')); } catch (error) { throw new Unreadable('state_garbled'); }
};
const packed = async (text) => toBase64Url(new Uint8Array(await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream('deflate-raw'))).arrayBuffer()));
// Read chunk by chunk: a few bytes can stand for gigabytes, so reading stops at the limit.
const unpacked = async (text) => {
  const reader = new Blob([fromBase64Url(text)]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader(), decoder = new TextDecoder('utf-8', { fatal: true });
  let out = '', size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return out + decoder.decode();
      size += value.length;
      if (size > MOST_UNPACKED) { reader.cancel().catch(() => {}); throw new Unreadable('state_too_large'); }
      out += decoder.decode(value, { stream: true });
    }
  } catch (error) { throw error instanceof Unreadable ? error : new Unreadable('state_garbled'); }
};

class Permalink {
  known() { return { views: this.config.views.map(({ id }) => id), colours: ['alternate', ...Object.values(VIEW_MODELS).flatMap(({ colours }) => colours || [])], examples: this.config.examples.map(({ id }) => id) }; }
  capture() {
    return { schema: STATE_SCHEMA, inputs: this.inputs(), view: this.view, colour: this.state.colour, example: this.example || null, pick: this.pick, switches: { ids: FLOW.ids, split: this.split, safe: this.state.safeOn, folded: this.folded } };
  }
  // As it is sent to others: at the time that what is in sight was rendered at, so that it is the same bytes tomorrow.
  pinned() {
    const state = this.capture(), clock = this.state.own.panes.map((pane) => pane.clock).find(Boolean);
    if (clock && !state.inputs.clock.trim()) state.inputs.clock = clock;
    return state;
  }
  // Put a state on the page. What it does not name is as at the beginning; its selection waits for the answer.
  apply(state) {
    this.applying = true;
    this.put(this.offered({ ...this.initial, ...state.inputs }));
    this.state.colour = state.colour; FLOW.ids = state.switches.ids; this.split = state.switches.split; this.folded = state.switches.folded; this.opened.clear(); this.state.safeOn = state.switches.safe;
    this.clear();
    this.wanted = state.pick;
    this.example = state.example;
    this.showNotice();
    this.open(state.view);
    this.changed();
    this.applying = false;
  }
  // A choice that this page's lists do not have is a reference that was typed.
  offered(inputs) {
    const { tokenizers, templates } = this.config.presets, lists = { tokenizer: tokenizers.map(({ id }) => id), template: [OWN, PASTED, ...templates.map(({ ref }) => ref)] };
    for (const [name, value] of Object.entries(inputs)) {
      const [, kind, q] = /^(tokenizer|template)(\d+)$/.exec(name) || [];
      if (kind && typeof value === 'string' && !value.startsWith('\u0000') && !lists[kind].includes(value)) Object.assign(inputs, { [kind + '_ref' + q]: value, [name]: CUSTOM });
    }
    return inputs;
  }
  // The selection of a state that was opened, once its answer is there.
  pickWanted() {
    const pick = this.wanted;
    if (!pick || this.dirty) return;
    this.wanted = null;
    const pane = pick.kind === 'fields' ? null : this.state.panes[pick.q];
    if (pane === undefined || (pick.kind === 'tokens' && pick.to > pane.n) || (pick.kind === 'bytes' && pick.to > pane.bytes.length)) return;
    this.choose(pick, true);
  }

  // ---- history ----------------------------------------------------------------------------------------------------
  remember(soon) {
    clearTimeout(this.rememberTimer);
    if (soon) { this.rememberTimer = setTimeout(() => this.remember(), this.restMs() + 100); return; }
    if (!this.begun || this.opening) return;
    const state = this.capture(), said = this.linked && JSON.stringify(this.linked) !== JSON.stringify(state.inputs);
    if (said) this.linked = null;
    history.replaceState(this.entry(state), '', said ? bareAddress() : location.href);
  }
  // What the browser would not keep is held in the page, for as long as it is open.
  entry(state) {
    if (JSON.stringify(state).length <= MOST_KEPT) return { inspector: state };
    const now = history.state, held = now && now.held !== undefined && this.held.has(now.held) && !this.pushing ? now.held : (this.held.made = (this.held.made || 0) + 1);
    this.held.delete(held); this.held.set(held, state);
    if (this.held.size > MOST_HELD) this.held.delete(this.held.keys().next().value);
    return { inspector: null, held };
  }
  visit(state, fragment) {
    this.remember();
    this.push(state, fragment);
  }
  push(state, fragment) {
    this.pushing = true;
    history.pushState(this.entry(state), '', bareAddress() + fragment);
    this.pushing = false;
    this.linked = fragment ? state.inputs : null;
  }
  // The panes are others than `before`: the entry keeps those, and a new one has them as they are.
  turned(before) {
    if (!this.begun || this.opening || this.applying) return;
    clearTimeout(this.rememberTimer);
    const state = this.capture(), was = { ...state, inputs: this.inputs(before) }, said = this.linked && JSON.stringify(this.linked) === JSON.stringify(was.inputs);
    history.replaceState(this.entry(was), '', said ? location.href : bareAddress());
    this.push(state, '');
  }
  // What the page opens with: the entry of the history (reload, back), else the link, else what this tab held, else the example.
  async begin() {
    addEventListener('popstate', (event) => this.arrivedAt(event.state));
    addEventListener('pagehide', () => this.remember());
    this.begun = true;
    // What was typed in the last moment before a reload is in the tab's storage, and not yet in the history's entry.
    const entry = history.state, [how] = performance.getEntriesByType('navigation');
    if (entry && entry.inspector && this.restored && how && how.type === 'reload') entry.inspector.inputs = this.restored;
    if (!(await this.arrivedAt(entry)) && !this.openShort()) this.changed();
    this.openScanLink();
  }
  // The first entry of a visit, one that was gone back to, or a link that was typed into this tab.
  async arrivedAt(entry) {
    const state = entry && (entry.inspector || this.held.get(entry.held));
    clearTimeout(this.rememberTimer);
    if (!state) return this.openFragment();
    try { this.apply(cleanState(state, this.known())); } catch (error) { return false; }
    this.linked = /^#(state|example|share)=/.test(location.hash) || hasChoices() ? this.inputs() : null;
    return true;
  }
  async openFragment() {
    const [, kind, text] = /^#(state|example|share)=([^]*)$/.exec(location.hash) || [];
    if (!kind) return false;
    this.opening = true;
    try {
      const state = kind === 'example' ? this.exampleState(text) : parsedState(await (kind === 'share' ? this.keptState(text) : unpacked(text)), this.known());
      this.opening = false;
      this.notice = '';
      this.apply(state);
      this.linked = this.inputs();
      this.remember();
      return true;
    } catch (error) { this.opening = false; this.refuse(error); return false; }
  }
  refuse(error) { this.notice = error.said || t(error instanceof Unreadable ? error.message : 'state_garbled', { limit: number(MOST_UNPACKED / 1000000) }); this.example = null; this.showNotice(); history.replaceState(history.state, '', bareAddress()); }

  // ---- sharing ----------------------------------------------------------------------------------------------------
  async share() {
    const state = this.pinned(), box = this.$('.ti-share');
    let fragment = null;
    try { fragment = '#state=' + await packed(JSON.stringify(state)); } catch (error) { /* this browser cannot compress: the file it is */ }
    const long = fragment === null || fragment.length > MOST_LINK, link = location.origin + bareAddress(true) + fragment, here = /^#share=(.+)$/.exec(location.hash);
    this.shared = { state, long, kept: (here && this.keys().find(({ id }) => id === here[1])) || null };
    this.showLink(long ? null : link);
    this.$('.ti-share .ti-size').textContent = fragment === null ? t('share_no_compression') : t(long ? 'share_long' : 'share_short', { n: number(fragment.length), limit: number(MOST_LINK) });
    this.$('.ti-share .ti-err').hidden = true;
    this.$('.ti-share .ti-copied').textContent = '';
    if (!long) { this.visit(state, fragment); this.linked = this.inputs(); }
    if (!box.open) box.showModal();
    if (!long) this.copyLink();
  }
  async copyLink() {
    const said = this.$('.ti-share .ti-copied');
    try { await navigator.clipboard.writeText(this.shared.link); said.textContent = t('copied'); } catch (error) { said.textContent = t('copy_failed'); }
  }
  saveState() { saveFile('inspector-state.json', JSON.stringify(this.shared.state, null, 2), 'application/json'); }
  async loadState(file) {
    const line = this.$('.ti-share .ti-err');
    try {
      if (file.size > MOST_FILE) throw new Unreadable('state_file_too_large');
      const text = await file.text();
      if (RECORD_SCHEMA.test(text)) { this.$('.ti-share').close(); this.showOpenRecord(); this.openRecord(text); return; }
      const state = parsedState(text, this.known());
      this.visit(state, '');
      this.$('.ti-share').close();
      this.notice = '';
      this.apply(state);
    } catch (error) {
      line.hidden = false;
      line.textContent = show(file.name.slice(0, 80)).replaceAll('\u00b7', ' ') + ': ' + t(error instanceof Unreadable ? error.message : 'state_garbled', { limit: number(MOST_FILE / 1000000) });
    }
  }
  listenShare() {
    this.listenSharing();
    const box = this.$('.ti-share'), input = this.$('.ti-share input[type=file]');
    input.addEventListener('change', () => { if (input.files.length) this.loadState(input.files[0]); input.value = ''; });
    box.addEventListener('dragover', (event) => event.preventDefault());
    box.addEventListener('drop', (event) => { event.preventDefault(); if (event.dataTransfer.files.length) this.loadState(event.dataTransfer.files[0]); });
    this.$('.ti-share .ti-link-text').addEventListener('focus', (event) => event.target.select());
  }
}
