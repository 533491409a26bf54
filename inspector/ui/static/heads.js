// The controls of one pane: tokenizer, template (preset, the tokenizer's own, a reference, or pasted text), counts.

const OWN = '', CUSTOM = '\u0000custom', PASTED = '\u0000pasted';

class Head {
  constructor(q, config, onInput, bench) {
    this.q = q; this.config = config; this.onInput = onInput; this.bench = bench;
    this.node = el('section', 'ti-head ti-head' + q);
    this.node.setAttribute('aria-label', letter(q));
    const start = config.defaults.panes[q];
    this.tokenizer = this.choice('tokenizer', config.presets.tokenizers.map((p) => [p.id, p.title || p.id]), start.tokenizer);
    this.template = this.choice('template', [[OWN, 'template_own'], ...config.presets.templates.map((p) => [p.ref, p.title || p.ref]), [PASTED, 'template_pasted']], start.template);
    this.paste = this.pasteBox();
    this.template.err.before(this.paste.box);
    this.age = el('span', 'ti-age'); this.age.setAttribute('role', 'status');
    this.counts = el('p', 'ti-counts'); this.counts.append(this.age); this.bar = el('div', 'ti-barhost');
    this.notes = el('p', 'ti-warn'); this.notes.hidden = true;
    this.node.append(el('b', 'ti-badge', letter(q)), this.tokenizer.box, this.template.box, this.counts, this.bar, this.notes);
    this.localize();
  }

  choice(name, entries, value) {
    const id = FLOW.uid + '-' + name + this.q, box = el('div', 'ti-field'), label = el('label'), select = el('select'), custom = el('input'), err = el('p', 'ti-err'), hint = el('p', 'ti-hint');
    hint.hidden = true;
    box.dataset.field = name; select.id = id; label.htmlFor = id; select.dataset.in = name + this.q; custom.dataset.in = name + '_ref' + this.q;
    custom.type = 'text'; custom.hidden = true; custom.spellcheck = false; custom.autocomplete = 'off';
    err.hidden = true; err.setAttribute('role', 'alert'); err.id = id + '-err'; select.setAttribute('aria-describedby', err.id); custom.setAttribute('aria-describedby', err.id);
    for (const [key, text] of [...entries, [CUSTOM, 'custom_ref']]) { const option = el('option', '', text); option.value = key; option.dataset.key = text; select.append(option); }
    select.value = value;
    if (select.selectedIndex < 0) { select.value = CUSTOM; custom.value = value; custom.hidden = hint.hidden = false; }
    select.addEventListener('change', () => {
      this.chosen();
      if (!custom.hidden) custom.focus();
      if (select.value === PASTED) { this.paste.box.open = true; this.paste.area.focus(); }
      this.onInput();
    });
    custom.addEventListener('input', this.onInput);
    box.append(label, select, custom, hint, err);
    return { box, label, select, custom, hint, err, last: value };
  }

  pasteBox() {
    const box = el('details', 'ti-paste'), summary = el('summary'), area = el('textarea');
    area.rows = 8; area.spellcheck = false; area.dataset.in = 'template_text' + this.q;
    area.addEventListener('input', () => { if (area.value) this.template.select.value = PASTED; this.chosen(); this.onInput(); });
    box.append(summary, area);
    return { box, summary, area };
  }

  localize() {
    const name = letter(this.q);
    for (const kind of ['tokenizer', 'template']) {
      this[kind].label.textContent = t(kind);
      this[kind].select.setAttribute('aria-label', name + ' ' + t(kind));
      this[kind].custom.setAttribute('aria-label', name + ' ' + t(kind + '_ref'));
      this[kind].hint.textContent = t(kind + '_ref_hint');
      for (const option of this[kind].select.options) if (option.dataset.key in strings.en) option.textContent = t(option.dataset.key);
    }
    this.paste.summary.textContent = t('template_paste');
    this.paste.area.setAttribute('aria-label', name + ' ' + t('template_text'));
    this.paste.area.placeholder = t('template_text_hint');
  }

  read() {
    const choice = this.template.select.value, [tokenizer, template] = [this.tokenizer, this.template].map((field) => {
      field.last = field.select.value === CUSTOM ? field.custom.value.trim() || field.last : field.select.value === PASTED ? OWN : field.select.value;
      return field.last;
    });
    return {
      tokenizer, template,
      template_text: choice === PASTED ? this.paste.area.value : null,
    };
  }

  // Show what the choices need: a line for a reference, the box for pasted text.
  chosen() {
    for (const { select, custom, hint } of [this.tokenizer, this.template]) custom.hidden = hint.hidden = select.value !== CUSTOM;
    if (this.template.select.value === PASTED) this.paste.box.open = true;
  }
  // Whether a reference is still to be typed; until then the pane stays with its last one.
  wanting() { return [this.tokenizer, this.template].some(({ select, custom }) => select.value === CUSTOM && !custom.value.trim()); }
  // Say that what is shown is not of the present input; "" when it is.
  showAge(text) { this.age.textContent = text; }
  named(pane) {
    const template = pane.template_text !== null ? t('template_pasted') : pane.template || t('template_own');
    return show(pane.tokenizer + ' + ' + template).replaceAll('\u00b7', ' ');
  }

  // Any of tokens, special, added, from content; `pane` may be a stale one.
  showCounts(pane) {
    const { counts } = pane, parts = [[t('count_tokens', { n: number(pane.n) }), ''], [t('count_special', { n: number(counts.special) }), ''], [t('count_added', { n: number(counts.added) }), '']];
    const forged = t('count_from_content', { n: number(counts.from_content) });
    const last = counts.from_content ? button('ti-hot ti-forgedcount', forged + ' \u26a0', () => showForged(this.bench)) : el('span', '', forged);
    if (counts.from_content) last.title = t('show_forged');
    this.counts.replaceChildren(this.age, ...parts.map(([text, cls]) => el('span', cls, text)), last);
    const { budget } = pane, gone = budget && budget.input_tokens <= budget.max_input_tokens ? [['header_dropped', budget.dropped.length], ['header_cut', budget.cut.length]].filter(([, n]) => n) : [];
    if (gone.length) this.counts.append(button('ti-hot ti-forgedcount ti-taken', gone.map(([key, n]) => t(key, { n: number(n) })).join(', '), () => this.bench.open('budget')));
    this.bar.replaceChildren(partBar(pane, this.q, this.bench));
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
