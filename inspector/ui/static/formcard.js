// One card of the form: a message or a tool, its members as fields. No member is ever left out: what has no field of its
// own is a row of key and JSON.

class FormCard {
  constructor(form) { Object.assign(this, { form, li: el('li', 'ti-msg'), fields: [], built: false, folded: null }); this.li.card = this; }
  // Take the place in the text; a built card is refreshed when its source or its index is another.
  set(node, index, text) {
    const source = text.slice(node.from, node.to), same = source === this.source && index === this.index;
    Object.assign(this, { node, index, source });
    if (!same && this.built) this.refresh();
  }
  nodeAt(at) { let { node } = this; for (const k of at) node = node && node.items[k]; return node; }
  scan() { return this.form.scan(); }
  text(node) { return textOf(this.scan(), node); }
  rows() { return this.node.kind !== 'object' ? [{ type: 'raw', at: [], rel: [] }] : this.form.tools ? toolRows(this.node) : messageRows(this.node); }
  // What a card is drawn from, values apart; a text that grows long while it is typed does not fold under the hands.
  shapeOf(rows) { return JSON.stringify([rows, this.isFolded()]); }
  isFolded() { const node = document.activeElement; return this.folded ?? (this.source.length > LONG_CARD && !(node.field && this.li.contains(node))); }
  fold(on) { if (on === this.isFolded()) return; this.folded = on; if (this.built) this.rebuild(); }

  // ---- drawing ----------------------------------------------------------------------------------------------------
  build() {
    if (this.built || !this.scan()) return;
    this.built = true;
    const rows = this.rows(), folded = this.isFolded();
    this.fields = []; this.signature = this.shapeOf(rows);
    this.li.style.minHeight = '';
    this.li.replaceChildren(this.head());
    if (!folded) { const body = el('div', 'ti-msgbody'); this.fill(body, rows); if (this.node.kind === 'object') body.append(this.adder()); this.li.append(body); }
    this.refresh();
  }
  unbuild() { this.li.style.minHeight = this.li.offsetHeight + 'px'; this.li.replaceChildren(); this.built = false; this.fields = []; }
  rebuild() {
    if (!this.built || !this.scan()) return;
    const focus = this.form.focused();
    this.built = false;
    this.build();
    if (focus && focus.index === this.index) this.form.restore(focus);
  }
  refresh() {
    if (this.shapeOf(this.rows()) !== this.signature) { this.rebuild(); return; }
    this.headline();
    for (const field of this.fields) field.show();
  }
  button(key, sign, act) {
    const node = this.form.button('ti-icon', act);
    node.textContent = sign; node.dataset.k = key; node.title = t('form_' + key);
    return node;
  }
  head() {
    const head = el('div', 'ti-msghead'), { form } = this;
    this.fold_ = this.button('fold', this.isFolded() ? '\u25b8' : '\u25be', () => this.fold(!this.isFolded()));
    this.fold_.setAttribute('aria-expanded', String(!this.isFolded()));
    this.number = el('span', 'ti-msgno');
    this.summary = el('span', 'ti-summary');
    head.append(this.fold_, this.number);
    if (!form.tools && this.node.kind === 'object') head.append(...this.role());
    head.append(this.summary, this.button('up', '\u2191', () => form.move(this.index, -1)), this.button('down', '\u2193', () => form.move(this.index, 1)), this.button('duplicate', '\u00d72', () => form.duplicate(this.index)), this.button('remove', '\u2715', () => form.remove(this.index)));
    return head;
  }
  role() {
    const select = (this.select = el('select', 'ti-role')), other = (this.other = el('input', 'ti-role'));
    other.type = 'text'; other.spellcheck = false; other.hidden = true; other.dataset.k = 'otherrole'; select.dataset.k = 'role';
    for (const role of [...USUAL_ROLES, '']) { const option = el('option', '', role || t('form_other_role')); option.value = role; select.append(option); }
    select.addEventListener('change', () => { if (select.value) this.setRole(select.value, false); else { select.hidden = true; other.hidden = false; other.value = this.roleText(); other.focus(); other.select(); } });
    other.addEventListener('input', (event) => { if (!event.isComposing) this.setRole(other.value, true); });
    other.addEventListener('compositionend', () => this.setRole(other.value, true));
    return [select, other];
  }
  roleText() { const node = memberOf(this.node, 'role'); return node && node.kind === 'string' ? this.text(node) : ''; }
  setRole(role, typing) {
    const node = memberOf(this.node, 'role');
    if (node && node.kind === 'string') this.form.edit(editString(this.scan(), node, role), typing);
    else if (node) this.form.edit({ from: node.from, to: node.to, text: JSON.stringify(role) });
    else this.form.edit(insertItem(this.scan(), this.node, 0, () => '"role": ' + JSON.stringify(role)));
  }
  headline() {
    const { form, number } = this, n = this.index + 1, name = t(form.tools ? 'form_tool_n' : 'form_message_n', { n });
    this.li.setAttribute('aria-label', name);
    number.textContent = String(this.index);
    for (const node of this.li.querySelectorAll('.ti-msghead [data-k]')) node.setAttribute('aria-label', (node === this.select || node === this.other ? t('form_role') : node.title) + ': ' + name);
    if (this.select) {
      const role = this.roleText(), usual = USUAL_ROLES.includes(role);
      this.li.dataset.role = usual ? role : '';
      if (this.other.hidden || document.activeElement !== this.other) { this.select.hidden = !usual && role !== ''; this.other.hidden = !this.select.hidden; if (usual) this.select.value = role; else this.other.value = role; if (!usual && !role) this.select.value = ''; }
    }
    const said = form.tools ? this.node.items.flatMap((item) => (keyAt(item) === 'function' ? item.items : [item])).find((item) => keyAt(item) === 'name' && item.kind === 'string') : memberOf(this.node, 'content');
    this.summary.textContent = !form.tools && !this.isFolded() ? '' : !said ? '' : said.kind === 'string' ? this.text({ ...said, to: said.to }).slice(0, 200) : this.scan().text.slice(said.from, Math.min(said.to, said.from + 200));
  }
  fill(body, rows) {
    for (const row of rows) {
      if (row.type === 'parts' || row.type === 'calls' || row.type === 'group') body.append(this.group(row)); else body.append(this.field(row));
    }
  }
  group(row) {
    const box = el('fieldset', 'ti-fieldset'), title = el('legend', 'ti-fieldname', row.type === 'group' ? t('form_call_n', { n: row.rel[row.rel.length - 1] + 1 }) : String(row.rel[row.rel.length - 1]));
    box.append(title);
    const tools = el('span', 'ti-rowtools');
    if (row.type === 'parts') tools.append(this.shape(row));
    tools.append(this.remover(row));
    title.append(tools);
    this.fill(box, row.rows);
    if (row.type === 'parts') box.append(this.more('form_add_part', row, { type: 'text', text: '' }), this.more('form_add_image', row, { type: 'image' }));
    if (row.type === 'calls') box.append(this.more('form_add_call', row, { type: 'function', function: { name: '', arguments: {} } }));
    return box;
  }
  more(label, row, value) {
    const node = this.form.button('ti-btn', () => { const list = this.nodeAt(row.at); this.form.edit(insertItem(this.scan(), list, list.items.length, (indent, unit) => sourceFor(value, unit, indent))); this.focusIn([...row.at, list.items.length]); });
    node.textContent = t(label); node.dataset.k = label + row.at.join('.');
    return node;
  }
  // Focus the first field below a place.
  focusIn(at) {
    const field = this.fields.find(({ row }) => startsWith(row.at, at));
    if (field) field.input.focus();
  }
  remover(row) {
    const at = row.remove || row.at, node = this.button('drop', '\u2715', () => {
      const parent = this.nodeAt(at.slice(0, -1)), index = at[at.length - 1];
      this.form.edit(removeItem(this.scan(), parent, index));
      const next = this.li.querySelector('[data-k="add"]');
      if (next) next.focus();
    });
    node.dataset.k = 'drop' + at.join('.');
    node.setAttribute('aria-label', t('form_drop') + ': ' + pathText(row.rel));
    return node;
  }
  field(row) {
    const box = el('div', 'ti-row'), line = el('div', 'ti-rowhead'), node = this.nodeAt(row.at), input = el(row.type === 'line' ? 'input' : 'textarea'), key = 'f' + row.at.join('.'), id = FLOW.uid + '-' + this.form.editor.name + this.index + key;
    if (row.type === 'line') input.type = 'text'; else input.rows = 1;
    input.spellcheck = false; input.autocomplete = 'off'; input.dataset.k = key; input.id = id;
    const own = row.rel.length === 1 && row.type === 'raw' && !row.shape && node.keyFrom >= 0;
    const name = own ? this.keyInput(row) : el('label', 'ti-fieldname', row.rel.length ? this.shortName(row.rel) : t('form_value'));
    if (!own) name.htmlFor = id;
    line.append(name);
    if (row.type === 'raw') line.append(el('span', 'ti-dim', 'JSON'));
    const tools = el('span', 'ti-rowtools');
    if (row.shape) tools.append(this.shape(row));
    if (row.at.length) tools.append(this.remover(row));
    line.append(tools);
    const wrong = el('p', 'ti-wrong'); wrong.hidden = true; wrong.id = id + '-err';
    input.setAttribute('aria-describedby', wrong.id);
    const field = { row, input, card: this, draft: null, wrong, show: () => this.show(field) };
    input.field = field;
    const apply = () => this.apply(field);
    input.addEventListener('input', (event) => { if (!event.isComposing) apply(); });
    input.addEventListener('compositionend', apply);
    this.fields.push(field);
    box.append(line, input, wrong);
    if (row.type === 'raw') box.classList.add('ti-raw');
    return box;
  }
  shortName(rel) { const tail = rel.slice(-2); return typeof tail[0] === 'string' && tail.length === 2 && tail[0] !== 'function' ? pathText(tail) : typeof tail[0] === 'number' ? pathText(rel.slice(-3)) : String(rel[rel.length - 1]); }
  keyInput(row) {
    const input = el('input', 'ti-keyname'), node = this.nodeAt(row.at);
    input.type = 'text'; input.spellcheck = false; input.dataset.k = 'k' + row.at.join('.');
    input.value = String(keyAt(node));
    input.setAttribute('aria-label', t('form_key'));
    input.addEventListener('change', () => {
      const now = this.nodeAt(row.at), name = input.value, taken = this.nodeAt(row.at.slice(0, -1)).items.some((item) => item !== now && keyAt(item) === name);
      if (taken) { input.setAttribute('aria-invalid', 'true'); this.form.writing.bench.tell(t('form_key_taken', { key: name })); return; }
      this.form.edit({ from: now.keyFrom, to: now.keyTo, text: JSON.stringify(name) });
    });
    return input;
  }
  // What a field shows; the field that is being typed into shows that already.
  show(field) {
    const { row, input } = field, node = this.nodeAt(row.at), scan = this.scan();
    input.setAttribute('aria-label', pathText([this.form.editor.name, this.index, ...row.rel]));
    const value = row.type === 'raw' ? shownSource(scan, node).shown : shownString(scan, node).shown;
    if (field.draft !== null && field.of === value) return;  // typed, but no JSON yet
    this.invalid(field, null);
    if (input.value === value) return;
    const { selectionStart, selectionEnd } = input, active = document.activeElement === input;
    input.value = value;
    if (active) input.setSelectionRange(Math.min(selectionStart, value.length), Math.min(selectionEnd, value.length));
  }
  apply(field) {
    const { row, input } = field, node = this.nodeAt(row.at);
    if (row.type !== 'raw') { const edit = editString(this.scan(), node, input.value); if (edit.from !== edit.to || edit.text) this.form.edit(edit, true); return; }
    const value = input.value.trim(), own = scanJson(value, []);
    if (!own) { this.invalid(field, input.value); return; }
    this.invalid(field, null);
    const { shown, indent } = shownSource(this.scan(), node), source = value.replaceAll('\n', '\n' + indent);
    if (value === shown) return;
    const [head, tail] = agreeing(this.scan().text.slice(node.from, node.to), source);
    this.form.edit({ from: node.from + head, to: node.to - tail, text: source.slice(head, source.length - tail) }, true);
  }
  invalid(field, draft) {
    const node = this.nodeAt(field.row.at);
    field.draft = draft; field.of = draft === null ? null : shownSource(this.scan(), node).shown;
    field.wrong.hidden = draft === null;
    field.wrong.textContent = draft === null ? '' : t('form_not_json');
    if (draft === null) field.input.removeAttribute('aria-invalid'); else field.input.setAttribute('aria-invalid', 'true');
  }
  // Content as text, as parts, or null; what cannot be kept on the way is not offered.
  shape(row) {
    const select = el('select', 'ti-shape'), node = this.nodeAt(row.at), source = this.scan().text.slice(node.from, node.to), ways = this.ways(row);
    const now = node.kind === 'string' ? 'text' : node.kind === 'array' ? 'parts' : source === 'null' ? 'null' : 'json';
    for (const way of ['text', 'parts', 'null', ...(now === 'json' ? ['json'] : [])]) { const option = el('option', '', t('form_as_' + way)); option.value = way; option.disabled = way !== now && (ways[way] ?? null) === null; select.append(option); }
    select.value = now; select.dataset.k = 'shape' + row.at.join('.');
    select.setAttribute('aria-label', t('form_shape'));
    select.addEventListener('change', () => { const place = this.nodeAt(row.at); this.form.edit({ from: place.from, to: place.to, text: this.ways(row)[select.value] }); });
    return select;
  }
  ways(row) {
    const node = this.nodeAt(row.at), { text } = this.scan(), source = text.slice(node.from, node.to), list = node.kind === 'array', [only] = node.items;
    const said = list && node.items.length === 1 && only.kind === 'object' && only.items.length === 2 && memberOf(only, 'text');
    return {
      text: node.kind === 'string' ? source : source === 'null' || (list && !only) ? '""' : said && said.kind === 'string' ? text.slice(said.from, said.to) : null,
      parts: list ? source : node.kind === 'string' ? '[{"type": "text", "text": ' + source + '}]' : source === 'null' ? '[]' : null,
      null: 'null', json: source,
    };
  }
  adder() {
    const select = el('select', 'ti-adder'), has = (key) => Boolean(memberOf(this.node, key)), first = el('option', '', t('form_add'));
    const choices = this.form.tools ? [] : [['content', '""'], ['reasoning_content', '""'], ['tool_calls', null], ['tool_call_id', '""'], ['name', '""']].filter(([key]) => !has(key));
    first.value = ''; select.dataset.k = 'add'; select.setAttribute('aria-label', t('form_add'));
    select.append(first, ...[...choices.map(([key]) => key), ' '].map((key) => { const option = el('option', '', key === ' ' ? t('form_other_key') : key === 'tool_calls' ? t('form_tool_call') : key); option.value = key; return option; }));
    select.addEventListener('change', () => {
      let key = select.value;
      if (!key) return;
      const found = choices.find(([name]) => name === key);
      if (!found) { key = 'key'; for (let n = 2; has(key); n++) key = 'key' + n; }
      const value = key === 'tool_calls' ? (indent, unit) => sourceFor([{ type: 'function', function: { name: '', arguments: {} } }], unit, indent) : () => (found ? found[1] : 'null');
      const at = this.node.items.length;
      this.form.edit(insertItem(this.scan(), this.node, at, (indent, unit) => JSON.stringify(key) + ': ' + value(indent, unit)));
      this.rebuild();
      const name = !found && this.li.querySelector('[data-k="k' + at + '"]');
      if (name) { name.focus(); name.select(); } else this.focusIn([at]);
    });
    return select;
  }
}
