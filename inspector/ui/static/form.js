// Messages or tools as a form: one card each, over the JSON text of an editor. The text is the only state: a card reads
// its place in the scanned text, and an edit writes only what it changed (scan.js). Cards are built when they come near
// the sight, so that thousands cost little.

const USUAL_ROLES = ['system', 'developer', 'user', 'assistant', 'tool'];
const LONG_CARD = 6000, MOST_BUILT = 80;
const LONG_TEXTS = ['content', 'reasoning_content', 'reasoning', 'thinking', 'arguments', 'text', 'description'];

const keyAt = (node) => node.steps[node.steps.length - 1];
// The rows of an object's members: what each is shown as, `at` which items of the card's node, under which name.
const memberRow = (node, at, rel) => {
  const key = keyAt(node);
  if (node.kind === 'string' && node.keyFrom >= 0) return { type: LONG_TEXTS.includes(key) ? 'text' : 'line', at, rel };
  return { type: 'raw', at, rel };
};
const memberRows = (object, at, rel, special) => object.items.flatMap((item, k) => { const key = keyAt(item), here = [...at, k], path = [...rel, key]; return special(item, here, path) || [memberRow(item, here, path)]; });
const partRows = (list, at, rel) => list.items.map((part, k) => {
  const here = [...at, k], path = [...rel, k];
  if (part.kind === 'string') return { type: 'text', at: here, rel: path };
  const text = part.kind === 'object' ? part.items.findIndex((item) => keyAt(item) === 'text' && item.kind === 'string') : -1;
  if (text < 0 || part.items.length > 2) return { type: 'raw', at: here, rel: path };
  return { type: 'text', at: [...here, text], rel: [...path, 'text'], remove: here };
});
const callRows = (list, at, rel) => list.items.map((call, k) => {
  const here = [...at, k], path = [...rel, k];
  if (call.kind !== 'object') return { type: 'raw', at: here, rel: path };
  return { type: 'group', at: here, rel: path, rows: memberRows(call, here, path, (item, own, name) => (keyAt(item) === 'function' && item.kind === 'object' ? memberRows(item, own, name, () => null) : keyAt(item) === 'type' && item.kind === 'string' ? [] : null)) };
});
const messageRows = (node) => memberRows(node, [], [], (item, at, rel) => {
  const key = rel[0];
  if (key === 'role' && item.kind === 'string') return [];
  if (key === 'content') return [item.kind === 'array' ? { type: 'parts', at, rel, rows: partRows(item, at, rel) } : { ...memberRow(item, at, rel), shape: true }];
  if (key === 'tool_calls' && item.kind === 'array') return [{ type: 'calls', at, rel, rows: callRows(item, at, rel) }];
  return null;
});
const toolRows = (node) => memberRows(node, [], [], (item, at, rel) => (rel[0] === 'function' && item.kind === 'object' ? memberRows(item, at, rel, () => null) : null));

class Form {
  constructor(editor, writing) {
    Object.assign(this, { editor, writing, tools: editor.name === 'tools', cards: [], lit: [] });
    this.node = el('div', 'ti-form'); this.node.hidden = true;
    this.note = el('p', 'ti-formnote');
    this.list = el('ol', 'ti-msgs');
    this.add = this.button('ti-btn', () => this.insert());
    this.node.append(this.note, this.list, this.add);
    this.near = new IntersectionObserver((entries) => this.came(entries), { root: this.node, rootMargin: '500px 0px' });
    this.node.addEventListener('keydown', (event) => this.key(event));
    this.node.addEventListener('beforeinput', () => this.writing.keepCaret(this.editor));
    this.node.addEventListener('focusin', () => this.writing.bench.caretMoved());
  }
  button(cls, act) { const node = el('button', cls); node.type = 'button'; node.addEventListener('click', act); return node; }
  localize() {
    this.add.textContent = t(this.tools ? 'form_add_tool' : 'form_add_message');
    this.list.setAttribute('aria-label', t(this.tools ? 'form_tools' : 'form_messages'));
    for (const card of this.cards) card.rebuild();
    this.seen = undefined;
    if (!this.node.hidden) this.update();
  }

  // ---- the text ---------------------------------------------------------------------------------------------------
  scan() { return this.editor.scan(); }
  // The node of the array; null when the text has none.
  array() {
    const scan = this.scan(), root = scan && scan.nodes[0];
    if (!root) return null;
    const node = root.kind === 'object' ? memberOf(root, this.editor.name) : root;
    return node && node.kind === 'array' ? node : null;
  }
  edit(edit, typing) { this.writing.edit(this.editor, edit, typing); }

  // Draw what the text now holds; what did not change, and where the focus is, stays.
  update() {
    const text = this.editor.area.value;
    if (text === this.seen) return;
    this.seen = text;
    const array = this.array(), empty = !text.trim();
    this.note.textContent = array ? (array.items.length ? '' : t('form_none')) : empty ? t('form_none') : t(this.scan() ? 'form_no_array' : 'form_no_json');
    this.note.hidden = !this.note.textContent;
    this.list.hidden = !array; this.add.disabled = !array && !empty;
    if (!array) return;
    const focus = this.focused();
    while (this.cards.length > array.items.length) { const card = this.cards.pop(); this.near.unobserve(card.li); card.li.remove(); }
    while (this.cards.length < array.items.length) { const card = new FormCard(this); this.cards.push(card); this.list.append(card.li); this.near.observe(card.li); }
    this.cards.forEach((card, k) => card.set(array.items[k], k, text));
    this.restore(focus);
  }
  came(entries) {
    for (const { target, isIntersecting } of entries) {
      const { card } = target;
      if (isIntersecting) card.build();
      else if (card.built && this.cards.length > MOST_BUILT && !card.li.contains(document.activeElement)) card.unbuild();
    }
  }

  // ---- focus ------------------------------------------------------------------------------------------------------
  focused() {
    const node = document.activeElement, li = node && this.node.contains(node) ? node.closest('.ti-msg') : null;
    return li && { index: li.card.index, key: node.dataset.k, node, from: node.selectionStart, to: node.selectionEnd };
  }
  restore(focus, index = focus && focus.index) {
    if (!focus || (focus.node.isConnected && document.activeElement === focus.node && index === focus.index)) return;
    const card = this.cards[Math.min(index, this.cards.length - 1)];
    if (!card) { this.add.focus(); return; }
    card.build();
    const node = card.li.querySelector('[data-k="' + focus.key + '"]') || card.li.querySelector('[data-k="fold"]');
    if (!node) return;
    node.focus();
    if (node.setSelectionRange && focus.from !== null && node.dataset.k === focus.key) node.setSelectionRange(Math.min(focus.from, node.value.length), Math.min(focus.to, node.value.length));
  }
  // The selection of the field that has the focus, as positions in the text.
  caret() {
    const node = document.activeElement, field = node && node.field;
    if (!this.scan()) return null;
    if (!field || !this.node.contains(node)) { const card = node && node.closest && node.closest('.ti-msg'); return card && card.card ? [card.card.node.from, card.card.node.from] : null; }
    const at = field.card.nodeAt(field.row.at);
    if (!at || node.selectionStart === null) return null;
    if (field.row.type === 'raw') {
      const { indent } = shownSource(this.scan(), at), to = (i) => Math.min(at.to, at.from + i + indent.length * (node.value.slice(0, i).split('\n').length - 1));
      return [to(node.selectionStart), to(node.selectionEnd)];
    }
    const { place, shown } = shownString(this.scan(), at), to = (i) => place(Math.min(i, shown.length));
    return [to(node.selectionStart), to(node.selectionEnd)];
  }
  // Put the focus on a place in the text: the field that holds it, else its card.
  focusAt(from, to) {
    this.update();
    const card = this.cards.find(({ node }) => from <= node.to);
    if (!card) { this.add.focus(); return; }
    card.fold(false); card.build();
    const field = card.fields.find(({ row }) => { const node = card.nodeAt(row.at); return node && from >= node.from && from <= node.to; });
    if (!field) { card.li.querySelector('[data-k="fold"]').focus(); return; }
    const node = card.nodeAt(field.row.at), input = field.input;
    input.focus();
    if (field.row.type === 'raw') {
      const { indent } = shownSource(this.scan(), node), { text } = this.scan(), at = (position) => position - node.from - indent.length * (text.slice(node.from, position).split('\n').length - 1);
      input.setSelectionRange(at(from), at(Math.max(from, to)));
      return;
    }
    const { shown, place } = shownString(this.scan(), node);
    const at = (position) => { let low = 0, high = shown.length; while (low < high) { const mid = (low + high) >> 1; if (place(mid) < position) low = mid + 1; else high = mid; } return low; };
    input.setSelectionRange(at(from), at(Math.max(from, to)));
  }

  // ---- links ------------------------------------------------------------------------------------------------------
  light(layers) {
    for (const [node, name] of this.lit) node.classList.remove(name);
    this.lit = [];
    const array = this.array(), put = (node, name) => { node.classList.add(name); this.lit.push([node, name]); };
    if (!array) return false;
    for (const [name, fields] of Object.entries(layers)) {
      for (const { steps } of fields) {
        const card = startsWith(steps, array.steps) ? this.cards[steps[array.steps.length]] : null;
        if (!card) continue;
        put(card.li, name);
        const rel = steps.slice(array.steps.length + 1);
        for (const { row, input } of card.fields) if (startsWith(rel, row.rel)) put(input, name);
      }
    }
    return this.lit.length > 0;
  }
  reveal() {
    const first = this.lit.find(([node, name]) => name === 'ti-on' && node.card);
    if (!first) return;
    first[0].card.build();
    const field = this.lit.find(([node, name]) => name === 'ti-on' && !node.card && first[0].contains(node)), box = this.node.getBoundingClientRect(), own = (field ? field[0] : first[0]).getBoundingClientRect();
    if (own.top < box.top || own.top + 40 > box.bottom) this.node.scrollTop += own.top - box.top - box.height / 4;
  }

  // ---- cards ------------------------------------------------------------------------------------------------------
  key(event) {
    if (event.isComposing) return;
    if (event.key === 'Escape') { event.preventDefault(); this.writing.bench.goBack(); return; }
    const li = event.target.closest('.ti-msg');
    if (!li || !event.altKey || event.ctrlKey || event.metaKey || !['ArrowUp', 'ArrowDown'].includes(event.key)) return;
    event.preventDefault();
    this.move(li.card.index, event.key === 'ArrowUp' ? -1 : 1);
  }
  move(index, step) {
    if (!this.scan()) return;
    const array = this.array(), focus = this.focused();
    if (!array || index + step < 0 || index + step >= array.items.length) return;
    const moved = this.cards[index], other = this.cards[index + step];
    [moved.folded, other.folded] = [other.folded, moved.folded];
    this.edit(swapItems(this.scan(), array, Math.min(index, index + step)));
    if (focus) this.restore(focus, index + step);
    this.writing.bench.tell(t('form_moved', { from: index + 1, to: index + step + 1 }));
  }
  remove(index) {
    this.edit(removeItem(this.scan(), this.array(), index));
    const card = this.cards[Math.min(index, this.cards.length - 1)];
    if (card) { card.build(); card.li.querySelector('[data-k="remove"]').focus(); } else this.add.focus();
    this.writing.bench.tell(t('form_removed', { n: index + 1 }));
  }
  duplicate(index) {
    const array = this.array(), { from, to } = array.items[index], source = this.editor.area.value.slice(from, to);
    this.edit(insertItem(this.scan(), array, index + 1, () => source));
    this.restore({ index: index + 1, key: 'duplicate', node: document.body, from: null }, index + 1);
    this.writing.bench.tell(t('form_duplicated', { n: index + 1 }));
  }
  insert() {
    const array = this.array(), text = this.editor.area.value, last = array && array.items[array.items.length - 1], role = last && memberOf(last, 'role');
    const value = this.tools ? { type: 'function', function: { name: '', description: '', parameters: { type: 'object', properties: {} } } } : { role: role && textOf(this.scan(), role) === 'user' ? 'assistant' : 'user', content: '' };
    if (array) this.edit(insertItem(this.scan(), array, array.items.length, (indent, unit) => sourceFor(value, unit, indent)));
    else this.edit({ from: 0, to: text.length, text: JSON.stringify([value], null, 2) });
    const card = this.cards[this.cards.length - 1];
    card.fold(false); card.build();
    (card.fields[0] ? card.fields[0].input : card.li.querySelector('button')).focus();
  }
}
