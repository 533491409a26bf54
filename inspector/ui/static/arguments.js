// Inputs for the arguments that the panes' templates read. The JSON (or JSON5) of the arguments editor stays the truth: an input shows
// what it says and writes into its text at that one place; "not given" takes the argument out.

// The JSON text with an argument set to the JSON `value`, or taken out (null); null where the text is no object.
const setArgument = (text, name, value) => {
  const pair = JSON.stringify(name) + ': ' + value;
  if (!text.trim()) return value === null ? text : '{' + pair + '}';
  const scan = scanJson(text, []), root = scan && scan.nodes[0];
  if (!root || root.kind !== 'object') return null;
  const members = scan.nodes.filter(({ steps }) => steps.length === 1), at = members.map(({ steps }) => steps[0]).lastIndexOf(name), last = members[members.length - 1];
  if (at >= 0 && value !== null) return text.slice(0, members[at].from) + value + text.slice(members[at].to);
  if (value !== null && !last) return text.slice(0, root.from + 1) + pair + text.slice(root.from + 1);
  if (value !== null) return text.slice(0, last.to) + ',' + (/\n[ \t]*$/.exec(text.slice(0, last.keyFrom)) || [' '])[0] + pair + text.slice(last.to);
  if (at < 0) return text;
  if (members.length === 1) return '';
  return at + 1 < members.length ? text.slice(0, members[at].keyFrom) + text.slice(members[at + 1].keyFrom) : text.slice(0, members[at - 1].to) + text.slice(members[at].to);
};
const valueAt = (scan, node) => {
  if (node.kind === 'object') return Object.fromEntries(node.items.map((item) => [item.steps[item.steps.length - 1], valueAt(scan, item)]));
  if (node.kind === 'array') return node.items.map((item) => valueAt(scan, item));
  const source = scan.text.slice(node.from, node.to);
  return node.kind === 'string' ? textOf(scan, node) : node.kind === 'word' ? JSON.parse(source) : Number(source);
};
// The arguments that the text gives; null when it is not an object.
const givenArguments = (text) => {
  const scan = text.trim() ? scanJson(text, []) : null;
  if (!text.trim()) return {};
  return scan && scan.nodes[0].kind === 'object' ? valueAt(scan, scan.nodes[0]) : null;
};

class ArgumentInputs {
  // found(): [[letter of a pane, its template's arguments], ...]; read() and write(text) the JSON text; otherwise(), if it is
  // there, says what holds without an argument.
  constructor({ found, read, write, name, otherwise }) {
    Object.assign(this, { found, read, write, name, otherwise });
    this.node = el('div', 'ti-args'); this.node.setAttribute('role', 'group');
    this.rows = []; this.signature = null;
    this.uid = FLOW.uid + '-arg' + (ArgumentInputs.made = (ArgumentInputs.made || 0) + 1);
  }
  update() {
    const panes = this.found(), all = new Map();
    for (const [pane, list] of panes) for (const argument of list) { const known = all.get(argument.name); if (known) { known.panes.push(pane); known.defaults.push(argument.default); known.choices = [...new Set([...known.choices, ...argument.choices])]; } else all.set(argument.name, { ...argument, panes: [pane], defaults: [argument.default] }); }
    const signature = JSON.stringify([language, [...all.values()], panes.length]);
    if (signature !== this.signature) { this.signature = signature; this.make([...all.values()], panes.length); }
    this.show();
  }
  make(list, panes) {
    this.rows = list.map((argument, k) => this.row(argument, k, panes));
    this.unread = el('p', 'ti-hint'); this.unread.hidden = true;
    this.node.setAttribute('aria-label', this.name());
    this.node.replaceChildren(...this.rows.map(({ node }) => node), this.unread);
    this.node.hidden = !list.length;
  }
  row(argument, k, panes) {
    const node = el('div', 'ti-arg'), label = el('label', 'ti-argname', showButSpaces(argument.name)), err = el('p', 'ti-err'), id = this.uid + '-' + k;
    err.hidden = true; err.setAttribute('role', 'alert'); label.htmlFor = id;
    const row = { argument, node, err }, control = this.control(row);
    row.input.id = id; row.input.dataset.arg = argument.name;
    if (argument.panes.length < panes) label.append(' ', el('span', 'ti-argpanes', argument.panes.join(' ')));
    label.title = t('argument_lines', { lines: argument.lines.slice(0, 8).join(', ') });
    node.append(label, control, err);
    return row;
  }
  control(row) {
    const { type, choices } = row.argument;
    return type === 'boolean' ? this.checkbox(row) : choices.length ? this.select(row) : this.text(row);
  }
  // Without the argument: a third state, as which it also begins.
  checkbox(row) {
    const box = el('span', 'ti-argbox'), said = el('span', 'ti-argsaid'), input = row.input = el('input');
    input.type = 'checkbox';
    let state = null;
    input.addEventListener('change', () => this.set(row, state === null ? 'true' : state ? 'false' : null));
    row.show = (value) => {
      state = value === undefined ? null : Boolean(value);
      input.checked = state === true; input.indeterminate = state === null;
      said.textContent = value === undefined ? this.without(row) : JSON.stringify(value);
    };
    box.append(input, said);
    return box;
  }
  select(row) {
    const input = row.input = el('select'), none = el('option', '', this.without(row));
    none.value = '';
    input.append(none);
    const add = (value) => { const option = el('option', '', value); option.value = JSON.stringify(value); input.append(option); };
    row.argument.choices.forEach(add);
    input.addEventListener('change', () => this.set(row, input.value || null));
    row.show = (value) => {
      const wanted = value === undefined ? '' : JSON.stringify(value);
      if (!Array.from(input.options).some((option) => option.value === wanted)) { const option = el('option', '', wanted); option.value = wanted; input.append(option); }
      input.value = wanted;
    };
    return input;
  }
  text(row) {
    const input = row.input = el('input'), { type } = row.argument;
    input.type = 'text'; input.spellcheck = false; input.autocomplete = 'off'; input.placeholder = this.without(row);
    if (type === 'number') input.inputMode = 'decimal';
    input.addEventListener('input', (event) => { if (!event.isComposing) this.set(row, this.typed(row, input.value)); });
    input.addEventListener('compositionend', () => this.set(row, this.typed(row, input.value)));
    row.show = (value) => {
      const text = value === undefined ? '' : typeof value === 'string' && (type === 'string' || type === 'unknown') ? value : JSON.stringify(value);
      if (document.activeElement !== input || !this.same(row, value)) input.value = text;
    };
    return input;
  }
  same(row, value) { const typed = this.typed(row, row.input.value); try { return typed === undefined || (typed === null ? value === undefined : JSON.stringify(JSON.parse(typed)) === JSON.stringify(value)); } catch (error) { return false; } }
  // Typed text as JSON; null for nothing, undefined for what the type does not take.
  typed({ argument: { type } }, text) {
    if (!text) return null;
    if (type === 'string') return JSON.stringify(text);
    let value;
    try { value = JSON.parse(text); } catch (error) { return type === 'unknown' ? JSON.stringify(text) : undefined; }
    const fits = type === 'number' ? typeof value === 'number' : type === 'list' ? Array.isArray(value) : type === 'object' ? value && typeof value === 'object' && !Array.isArray(value) : true;
    return fits ? text.trim() : undefined;
  }
  // What happens without it; by pane where their templates differ.
  without({ argument: { panes, defaults } }) {
    if (this.otherwise) return this.otherwise();
    const text = (value) => (value === null || value === undefined ? '?' : typeof value === 'string' ? showButSpaces(value) : JSON.stringify(value)), texts = defaults.map(text), one = new Set(texts).size === 1;
    if (one && texts[0] === '?') return t('argument_none');
    return t('argument_default', { value: one ? texts[0] : texts.map((value, k) => panes[k] + ' ' + value).join(', ') });
  }
  set(row, value) {
    row.err.hidden = value !== undefined;
    if (value === undefined) row.input.setAttribute('aria-invalid', 'true'); else row.input.removeAttribute('aria-invalid');
    if (value === undefined) { row.err.textContent = t('argument_wants_' + row.argument.type); return; }
    const text = setArgument(this.read(), row.argument.name, value);
    if (text !== null) this.write(text);
    this.show();
  }
  // Show what the JSON says; while it says nothing readable, nothing can be set here.
  show() {
    const given = givenArguments(this.read());
    for (const row of this.rows) {
      row.input.disabled = given === null;
      if (given === null) continue;
      const value = Object.hasOwn(given, row.argument.name) ? given[row.argument.name] : undefined;
      row.show(value);
      row.node.classList.toggle('ti-given', value !== undefined);
    }
    const read = new Set(this.rows.map(({ argument }) => argument.name)), unread = given ? Object.keys(given).filter((name) => !read.has(name)) : [];
    if (!this.unread) return;
    this.unread.hidden = !unread.length || !this.rows.length;
    this.unread.textContent = t('argument_unread', { names: unread.map(showButSpaces).join(', ') });
  }
}

// Those below the arguments editor, which hold for every pane.
const argumentInputsOf = (bench) => {
  const area = bench.field('arguments');
  const inputs = new ArgumentInputs({
    found: () => bench.state.own.panes.map((pane, q) => [letter(q), (pane.template && pane.template.arguments) || []]),
    read: () => area.value,
    write: (text) => { area.value = text; area.dispatchEvent(new Event('input', { bubbles: true })); },
    name: () => t('arguments_found'),
  });
  area.addEventListener('input', () => inputs.show());
  area.closest('.ti-field').after(inputs.node);
  return inputs;
};
