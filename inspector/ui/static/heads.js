// The controls of one pane: tokenizer, template (a preset, the tokenizer's own, a reference, an edit), counts; and what can be
// opened below them: revisions, the editor, and what holds for this pane only. A pane may be made and removed at any time.

const OWN = '', CUSTOM = '\u0000custom', PASTED = '\u0000pasted', SAVED = '\u0000saved:', OWN_TEMPLATE = '#chat_template';

// Edited templates that were kept as revisions: {key, title, text, digest, origin}. They live as long as the tab does.
class SavedTemplates {
  constructor(bench) {
    this.bench = bench; this.list = [];
    try { this.list = JSON.parse(stored('sessionStorage', 'templates')) || []; } catch (error) { /* another version's: none */ }
    if (!Array.isArray(this.list)) this.list = [];
  }
  of(key) { return this.list.find((saved) => saved.key === key) || null; }
  add(title, text, digest, origin) {
    const known = this.list.find((saved) => saved.text === text && saved.title === title);
    if (known) return known;
    const saved = { key: String(1 + Math.max(0, ...this.list.map((other) => +other.key || 0))), title, text, digest, origin };
    this.list.push(saved); this.changed();
    return saved;
  }
  remove(key) { this.list = this.list.filter((saved) => saved.key !== key); this.changed(); }
  changed() {
    keep('sessionStorage', 'templates', JSON.stringify(this.list));
    for (const head of this.bench.heads) head.listSaved();
  }
}

class Head {
  constructor(q, config, onInput, bench) {
    this.q = q; this.config = config; this.onInput = onInput; this.bench = bench; this.draft = null; this.keptNow = ['', ''];
    bench.saved = bench.saved || new SavedTemplates(bench);
    bench.templateTexts = bench.templateTexts || new Map();
    bench.argumentInputs = bench.argumentInputs || argumentInputsOf(bench);
    this.node = el('section', 'ti-head ti-head' + q);
    this.node.setAttribute('aria-label', letter(q)); this.node.dataset.rove = '';
    const start = config.defaults.panes[q] || config.defaults.panes[0];
    this.tokenizer = this.choice('tokenizer', config.presets.tokenizers.map((p) => [p.id, p.title || p.id]), start.tokenizer);
    this.template = this.choice('template', [[OWN, 'template_own'], ...config.presets.templates.map((p) => [p.ref, p.title || p.ref]), [PASTED, 'template_pasted']], start.template);
    this.listSaved();
    // What a reload or a link must bring back and no visible field holds: the edit's text, and {origin, title, digest, draft}.
    this.kept = ['template_text', 'template_edit'].map((name) => { const node = el('input'); node.type = 'hidden'; node.dataset.in = name + q; return node; });
    this.options = this.optionBox();
    this.revisions = new RevisionList(this); this.editor = new TemplateEditor(this);
    this.buttons = this.disclosures();
    this.age = el('span', 'ti-age'); this.age.setAttribute('role', 'status');
    this.counts = el('p', 'ti-counts'); this.counts.append(this.age); this.bar = el('div', 'ti-barhost');
    this.notes = el('p', 'ti-warn'); this.notes.hidden = true;
    this.node.append(el('b', 'ti-badge', letter(q)), this.tokenizer.box, this.template.box, this.options.box, this.revisions.node, this.counts, this.bar, this.notes, ...this.kept);
    this.localize();
  }

  choice(name, entries, value) {
    const id = FLOW.uid + '-' + name + this.q, box = el('div', 'ti-field'), top = el('div', 'ti-labelrow'), label = el('label'), select = el('select'), custom = el('input'), err = el('p', 'ti-err'), hint = el('p', 'ti-hint');
    hint.hidden = true;
    box.dataset.field = name; select.id = id; label.htmlFor = id; select.dataset.in = name + this.q; custom.dataset.in = name + '_ref' + this.q;
    custom.type = 'text'; custom.hidden = true; custom.spellcheck = false; custom.autocomplete = 'off';
    err.hidden = true; err.setAttribute('role', 'alert'); err.id = id + '-err'; select.setAttribute('aria-describedby', err.id); custom.setAttribute('aria-describedby', err.id);
    for (const [key, text] of [...entries, [CUSTOM, 'custom_ref']]) { const option = el('option', '', text); option.value = key; option.dataset.key = text; select.append(option); }
    select.value = value;
    if (select.selectedIndex < 0) { select.value = CUSTOM; custom.value = value; custom.hidden = hint.hidden = false; }
    select.addEventListener('change', () => {
      if (name === 'template') this.options.name.value = '';
      this.chosen();
      if (!custom.hidden) custom.focus();
      if (name === 'template' && select.value === PASTED) this.edit();
      this.revisions.follow();
      this.onInput();
    });
    custom.addEventListener('input', this.onInput);
    custom.addEventListener('change', () => this.revisions.follow());
    const combo = new Combobox(select, this.bench.root);
    label.htmlFor = combo.input.id;
    top.append(label); box.append(top, combo.node, custom, hint, err);
    return { box, top, label, select, combo, custom, hint, err, last: value };
  }
  disclosures() {
    const group = el('span', 'ti-disclose'), add = (key, act) => { const node = button('ti-link ti-more', '', act); node.dataset.do = key; group.append(node); return node; };
    this.template.top.append(group);
    return { revisions: add('revisions', () => this.disclose('revisions')), edit: add('edit', () => this.edit()), options: add('options', () => this.disclose('options')) };
  }
  disclose(key, on = this.buttons[key].getAttribute('aria-expanded') !== 'true') {
    this.buttons[key].setAttribute('aria-expanded', on);
    if (key === 'revisions') { if (on) this.revisions.open(); else this.revisions.close(); } else { this.options.box.hidden = !on; this.showOptions(); }
  }
  // What holds for this pane only: a template's name, and what takes the place of the form's profile, engine and arguments.
  optionBox() {
    const box = el('div', 'ti-paneopts'), fields = {};
    box.hidden = true;
    const add = (key, node, place) => {
      const field = el('div', 'ti-field'), label = el('label'), err = el('p', 'ti-err');
      field.dataset.field = place; node.dataset.in = key + this.q; node.id = FLOW.uid + '-' + key + this.q; label.htmlFor = node.id;
      err.id = node.id + '-err'; err.hidden = true; err.setAttribute('role', 'alert'); node.setAttribute('aria-describedby', err.id);
      field.append(label, node); box.append(field);
      fields[key] = { field, label, node, err };
      return field;
    };
    const text = (tag) => { const node = el(tag); node.spellcheck = false; node.autocomplete = 'off'; node.addEventListener('input', (event) => { if (!event.isComposing) this.optioned(); }); node.addEventListener('compositionend', () => this.optioned()); return node; };
    const choice = (values) => { const node = el('select'); for (const value of ['', ...values]) { const option = el('option', '', value); option.value = value; node.append(option); } node.addEventListener('change', () => this.optioned()); return node; };
    const name = text('input'), list = el('datalist'), own = text('textarea');
    name.type = 'text'; own.rows = 2;
    list.id = FLOW.uid + '-names' + this.q; name.setAttribute('list', list.id);
    for (const value of ['default', 'tool_use', 'rag']) { const option = el('option'); option.value = value; list.append(option); }
    add('template_name', name, 'name').append(list);
    add('pane_profile', choice(this.config.profile), 'profile');
    add('pane_engine', choice(this.config.engines.slice(1)), 'engine');
    add('pane_arguments', own, 'arguments').classList.add('ti-wideopt');
    const inputs = new ArgumentInputs({
      found: () => { const pane = this.bench.state.own.panes[this.q]; return [[letter(this.q), (pane && pane.template && pane.template.arguments) || []]]; },
      read: () => own.value, write: (json) => { own.value = json; this.optioned(); }, name: () => letter(this.q) + ' ' + t('pane_arguments'), otherwise: () => t('as_in_the_form'),
    });
    for (const { field, err } of Object.values(fields)) field.append(err);
    box.append(inputs.node);
    return { box, fields, inputs, name, profile: fields.pane_profile.node, engine: fields.pane_engine.node, own };
  }
  optioned() { this.showOptions(); this.onInput(); }
  // How many of them are set stands at the button.
  showOptions() {
    const { options } = this, set = [this.takesName() && options.name.value.trim(), options.profile.value, options.engine.value, options.own.value.trim()].filter(Boolean).length;
    this.buttons.options.textContent = t('head_options') + (set ? ' (' + set + ')' : '');
    options.fields.template_name.field.hidden = !this.takesName();
    options.inputs.update();
  }

  localize() {
    const name = letter(this.q);
    for (const kind of ['tokenizer', 'template']) {
      this[kind].label.textContent = t(kind);
      this[kind].combo.name(name + ' ' + t(kind));
      this[kind].custom.setAttribute('aria-label', name + ' ' + t(kind + '_ref'));
      this[kind].hint.textContent = t(kind + '_ref_hint');
      for (const option of this[kind].select.options) if (option.dataset.key in strings.en) option.textContent = t(option.dataset.key);
      this[kind].combo.sync();
    }
    for (const [key, node] of Object.entries(this.buttons)) { node.textContent = t('head_' + key); node.setAttribute('aria-label', name + ' ' + t('head_' + key)); }
    for (const key of ['revisions', 'options']) if (!this.buttons[key].hasAttribute('aria-expanded')) this.buttons[key].setAttribute('aria-expanded', false);
    for (const [key, { label, node }] of Object.entries(this.options.fields)) { label.textContent = t(key); node.setAttribute('aria-label', name + ' ' + t(key)); }
    this.options.profile.options[0].textContent = t('as_in_the_form'); this.options.engine.options[0].textContent = this.config.engines[0];
    this.options.name.placeholder = t('template_name_hint'); this.options.own.placeholder = t('as_in_the_form');
    this.showOptions();
    this.revisions.draw(); this.editor.localize();
  }

  // ---- what is chosen -------------------------------------------------------------------------------------------
  read() {
    const edit = this.edited(), [tokenizer, template] = [this.tokenizer, this.template].map((field) => {
      field.last = field.select.value === CUSTOM ? field.custom.value.trim() || field.last : field.select.value.startsWith('\u0000') ? OWN : field.select.value;
      return field.last;
    });
    const { options } = this, own = Object.fromEntries([['profile', options.profile.value], ['engine', options.engine.value], ['arguments', options.own.value.trim()]].filter(([, value]) => value));
    if (edit) return { ...own, tokenizer, template: edit.origin ? edit.origin.ref : OWN, template_name: edit.origin ? edit.origin.name : '', template_text: edit.text };
    return { ...own, tokenizer, template, template_name: this.takesName() ? this.options.name.value.trim() : '', template_text: null };
  }
  takesName() { return [OWN, CUSTOM].includes(this.template.select.value); }
  // The edit that is in force: a draft, or one that was kept; null for a template as it is.
  edited() {
    const { value } = this.template.select;
    return value === PASTED ? this.draft || { text: '', origin: null } : value.startsWith(SAVED) ? this.bench.saved.of(value.slice(SAVED.length)) : null;
  }
  values() { return Object.fromEntries(Array.from(this.node.querySelectorAll('[data-in]'), (node) => [node.dataset.in, node.value])); }
  put(values) {
    for (const node of this.node.querySelectorAll('[data-in]')) {
      const value = values[node.dataset.in];
      if (typeof value !== 'string' || (node.tagName === 'SELECT' && !Array.from(node.options).some((option) => option.value === value))) continue;
      node.value = value;
    }
    this.chosen(true);
  }
  // Show what the choices need; `restored`: the fields were just put back, so the edit is read from what was kept.
  chosen(restored = this.kept.some((node, k) => node.value !== this.keptNow[k])) {
    if (restored) this.bringBack();
    for (const { select, custom, hint } of [this.tokenizer, this.template]) custom.hidden = hint.hidden = select.value !== CUSTOM;
    this.keepEdit();
    this.drawEditor();
    this.showOptions();
    if (!this.revisions.node.hidden) this.revisions.draw();
  }
  keepEdit() {
    const edit = this.edited(), { title, digest, origin } = edit || {}, about = edit ? { origin, title, digest } : {};
    if (this.draft && edit !== this.draft && this.draft.text) about.draft = this.draft;
    this.keptNow = [edit ? edit.text : '', Object.values(about).some((value) => value !== undefined && value !== null) ? JSON.stringify(about) : ''];
    this.kept.forEach((node, k) => { node.value = this.keptNow[k]; });
  }
  // An edit that was kept is told by its text and title: another tab's keys mean nothing here.
  bringBack() {
    const [text, about] = this.kept.map(({ value }) => value), { select } = this.template, sound = (origin) => origin && ['ref', 'name', 'label', 'digest'].every((key) => typeof origin[key] === 'string');
    let kept = {};
    try { kept = JSON.parse(about) || {}; } catch (error) { /* none, or another version's */ }
    const origin = sound(kept.origin) ? kept.origin : null, { draft } = kept;
    this.draft = draft && typeof draft.text === 'string' ? { text: draft.text, origin: sound(draft.origin) ? draft.origin : null } : null;
    if (typeof kept.title === 'string') select.value = SAVED + this.bench.saved.add(kept.title, text, typeof kept.digest === 'string' ? kept.digest : '', origin).key;
    else if (select.value === PASTED) this.draft = { text, origin };
  }
  pickTokenizer(ref) { this.pick(this.tokenizer, ref); this.chosen(); }
  pickTemplate(ref, name) {
    const own = ref === this.read().tokenizer + OWN_TEMPLATE;
    this.pick(this.template, own ? OWN : ref);
    this.options.name.value = name && name !== 'default' ? name : '';
    this.chosen();
  }
  pick({ select, custom }, ref) {
    if (Array.from(select.options).some((option) => option.value === ref)) { select.value = ref; return; }
    select.value = CUSTOM; custom.value = ref;
  }
  isTemplate(ref, name) {
    const now = this.read();
    if (now.template_text !== null) return false;
    const source = this.source(), refs = [now.template || now.tokenizer + OWN_TEMPLATE, source && source.origin && source.origin.ref];
    return refs.includes(ref) && (now.template_name || 'default') === (name || 'default');
  }
  // Whether a reference is still to be typed; until then the pane stays with its last one.
  wanting() { return [this.tokenizer, this.template].some(({ select, custom }) => select.value === CUSTOM && !custom.value.trim()); }
  // Say that what is shown is not of the present input; "" when it is.
  showAge(text) { this.age.textContent = text; }
  named(pane) {
    const template = pane.template_text !== null ? (pane.template ? pane.template + ' (' + t('edited') + ')' : t('template_pasted')) : (pane.template || t('template_own')) + (pane.template_name ? ' (' + pane.template_name + ')' : '');
    return show(pane.tokenizer + ' + ' + template).replaceAll('\u00b7', ' ');
  }

  // ---- editing the template -------------------------------------------------------------------------------------
  // Open the editor of this pane.
  edit() {
    templateEditing(this.bench, true);
    this.editor.area.focus();
    this.editor.node.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }
  // What the page knows of this pane's last answer.
  answerNow() {
    const { bench, q } = this;
    if (bench.slots) return bench.slots[q] || { shownOf: null, failed: false, errors: [] };
    return { shownOf: bench.shownOf[q], failed: bench.failed[q], errors: bench.answer ? bench.answer.errors.filter((error) => error.pane === q) : [] };
  }
  // The template as it is, when it is known: {text, origin}; else null, and it is asked for if the answer will not bring it.
  source() {
    const { bench, q } = this, { shownOf: of, failed } = this.answerNow(), pane = bench.state.own.panes[q], now = this.read(), info = of && pane && of.template_text === null && of.tokenizer === now.tokenizer && of.template === now.template && (of.template_name || '') === now.template_name ? pane.template || null : undefined;
    if (info === null) return { text: '', origin: null };
    if (info) return { text: info.text, origin: this.remember(info) };
    const key = this.sourceKey(now), known = bench.templateTexts.get(key);
    if (known) return known.error ? { text: this.editor.area.value, origin: null } : { text: known.text, origin: known.origin };
    if (failed && !this.wanting()) this.askSource(key, now.template || now.tokenizer + OWN_TEMPLATE, now.template_name);
    return null;
  }
  sourceKey({ tokenizer, template, template_name }) { return JSON.stringify([template || tokenizer + OWN_TEMPLATE, template_name || '']); }
  remember(info) {
    const origin = { ref: pinnedRef(info), name: info.name === 'default' ? '' : info.name, label: templateLabel(info), digest: info.digest };
    this.bench.templateTexts.set(JSON.stringify([origin.ref, origin.name]), { text: info.text, origin });
    return origin;
  }
  async askSource(key, template, name) {
    if (this.bench.templateTexts.has(key) || this.asking === key) return;
    this.asking = key;
    const text = await this.bench.server.template_source({ session: this.bench.session, template, name });
    this.asking = null;
    const found = typeof text === 'string' ? JSON.parse(text) : { error: t('lost') };
    this.bench.templateTexts.set(key, found.error ? found : { text: found.text, origin: this.remember(found) });
    this.drawEditor();
  }
  // Text of the template that an edit began with, or {error}.
  async originText() {
    const { edit, origin } = this.base(), key = origin && JSON.stringify([origin.ref, origin.name]);
    if (!origin) return edit ? '' : this.source().text;
    if (!this.bench.templateTexts.has(key)) await this.askSource(key, origin.ref, origin.name);
    const found = this.bench.templateTexts.get(key);
    return found ? found.text ?? found : { error: t('lost') };
  }
  base() {
    const edit = this.edited(), source = edit ? null : this.source();
    return { edit, source, origin: edit ? edit.origin : source && source.origin };
  }
  templateTyped(text) {
    const { edit, origin } = this.base(), known = origin && this.bench.templateTexts.get(JSON.stringify([origin.ref, origin.name]));
    const saved = this.bench.saved.list.find((other) => other.text === text && (other.origin && other.origin.ref) === (origin && origin.ref));
    if (this.draft && edit !== this.draft && this.draft.text) this.setAside(origin);
    if (known && typeof known.text === 'string' && plainBreaks(known.text) === text) { this.draft = null; this.pickTemplate(origin.ref, origin.name); }
    else if (saved) { this.template.select.value = SAVED + saved.key; this.chosen(false); }
    else { this.draft = { text, origin }; this.template.select.value = PASTED; this.chosen(false); }
    this.onInput();
  }
  // Keep a draft of another template that would give way to this one.
  setAside(origin) {
    const { text, origin: before } = this.draft;
    if ((before && before.ref) !== (origin && origin.ref) && !this.bench.saved.list.some((saved) => saved.text === text)) this.bench.saved.add(this.nextName(before), text, '', before);
  }
  templateNow() {
    const { edit, source, origin } = this.base(), shown = (this.bench.state.own.panes[this.q] || {}).template, text = edit ? edit.text : source ? source.text : '';
    const saved = edit && edit.title !== undefined, title = saved ? edit.title : edit ? (origin ? '' : t('pasted')) : origin ? origin.label : t('no_template_short');
    const digest = saved && edit.digest ? edit.digest : shown && shown.text === text ? shown.digest : origin && !edit ? origin.digest : '';
    return { title, digest, text, origin: origin ? origin.label : null, edited: Boolean(edit), draft: Boolean(edit) && !saved, saved };
  }
  nextName(origin = this.base().origin) {
    const stem = origin ? origin.label : t('pasted'), taken = new Set(this.bench.saved.list.map((saved) => saved.title));
    let n = 1;
    while (taken.has(stem + ' ' + t('edited') + ' ' + n)) n++;
    return stem + ' ' + t('edited') + ' ' + n;
  }
  saveTemplate(title, text, digest) {
    const saved = this.bench.saved.add(title, text, digest, this.base().origin);
    this.draft = null;
    this.template.select.value = SAVED + saved.key;
    this.chosen(false); this.onInput();
  }
  // The kept revision becomes an unsaved edit again in the panes that show it.
  forgetSaved() {
    const edit = this.edited();
    for (const head of this.bench.heads) if (head.edited() === edit) { head.draft = { text: edit.text, origin: edit.origin }; head.template.select.value = PASTED; }
    this.bench.saved.remove(edit.key);
    for (const head of this.bench.heads) head.chosen(false);
    this.onInput();
  }
  listSaved() {
    const { select } = this.template, before = select.value;
    for (const option of Array.from(select.options)) if (option.value.startsWith(SAVED)) option.remove();
    const last = Array.from(select.options).find((option) => option.value === PASTED);
    for (const saved of this.bench.saved.list) { const option = el('option', '', show(saved.title).replaceAll('\u00b7', ' ') + (saved.digest ? ' \u00b7 ' + saved.digest.slice(0, 8) : '')); option.value = SAVED + saved.key; last.before(option); }
    select.value = before;
    if (select.selectedIndex < 0) select.value = PASTED;
  }
  drawEditor() {
    if (!this.editor.node.isConnected) return;
    const edit = this.edited(), source = edit || this.source(), pane = this.bench.state.own.panes[this.q];
    this.editor.show({ text: source ? source.text : null, waiting: !source, lines: pane ? templateMarks(pane) : null, error: this.templateError() });
  }
  templateError() {
    const errors = this.answerNow().errors.filter((error) => error.place === 'template');
    return errors.length ? { text: errors.map((error) => error.text).join('\n'), line: errors[0].at ? errors[0].at[0] : 0 } : null;
  }

  // Any of tokens, special, added, from content; `pane` may be a stale one.
  showCounts(pane, safe) {
    const { counts } = pane, parts = [...(safe ? [[t('safe_toggle'), 'ti-hot']] : []), [t('count_tokens', { n: number(pane.n) }), ''], [t('count_special', { n: number(counts.special) }), ''], [t('count_added', { n: number(counts.added) }), '']];
    const forged = t('count_from_content', { n: number(counts.from_content) });
    const last = counts.from_content ? button('ti-hot ti-forgedcount', forged + ' \u26a0', () => showForged(this.bench)) : el('span', '', forged);
    if (counts.from_content) last.title = t('show_forged');
    this.counts.replaceChildren(this.age, ...parts.map(([text, cls]) => el('span', cls, text)), last);
    for (const node of [findingCount(this.bench, pane), leftOutBadge(this.bench, pane, this.q)]) if (node) this.counts.append(node);
    const { budget } = pane, gone = budget && budget.input_tokens <= budget.max_input_tokens ? [['header_dropped', budget.dropped.length], ['header_cut', budget.cut.length]].filter(([, n]) => n) : [];
    if (gone.length) this.counts.append(button('ti-hot ti-forgedcount ti-taken', gone.map(([key, n]) => t(key, { n: number(n) })).join(', '), () => this.bench.open('budget')));
    showPartBar(this.bar, pane, this.q, this.bench);
    this.bench.argumentInputs.update();
    this.showOptions();
    const findings = pane.findings.filter(({ rule }) => rule !== 'budget-dropped'), small = findings.filter(({ rule }) => rule === 'template-pairing'), large = findings.filter((finding) => !small.includes(finding));
    if (small.length) this.counts.append(this.smallNotes(small));
    this.notes.hidden = !large.length;
    this.notes.textContent = large.map(({ message }) => said(message)).join(' \u00b7 ');
  }
  // A remark that matters little: its text is in the tooltip and unfolds.
  smallNotes(findings) {
    const box = el('details', 'ti-notes'), text = findings.map(({ message, remedy }) => said(message) + (remedy ? ' \u2192 ' + said(remedy) : '')).join('\n');
    box.open = Boolean(this.notesOpen);
    box.title = text;
    box.addEventListener('toggle', () => { this.notesOpen = box.open; });
    box.append(el('summary', '', t('note_pairing')), el('p', '', text));
    return box;
  }
}

// A reference that gives the same template again: a repository at its commit.
const pinnedRef = ({ ref, id, revision }) => (!ref.endsWith(OWN_TEMPLATE) && id.startsWith('hf:') && revision && !id.includes('@') ? id + '@' + revision : ref);
const templateLabel = ({ id, revision, name }) => id + (revision && !id.includes('@') ? '@' + (/^[0-9a-f]{40}$/.test(revision) ? revision.slice(0, 12) : revision) : '') + (name && name !== 'default' ? ' (' + name + ')' : '');
