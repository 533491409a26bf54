// Arrays of one batch as grids under each other, B rows and T columns each, one scroller: only what is in sight is in the page.
// It draws numbers that it is given; where the numbers come from is view_tensors.js.

const GRID_CELL = 62, GRID_NAME = 128, GRID_LINE = 20, GRID_TALL = 36, GRID_OVER = 3;
const CELL_TOKEN = 0, CELL_EOS = 1, CELL_PAD = 2;

// The server's columns as typed arrays; data as one deflated block of bytes.
const gridColumns = async (answer) => {
  const raw = new Uint8Array(await new Response(new Blob([rawBytes(answer.data)]).stream().pipeThrough(new DecompressionStream('deflate'))).arrayBuffer()), out = {};
  const kinds = { '<u4': Uint32Array, '<i4': Int32Array, '<u2': Uint16Array, '|u1': Uint8Array };
  let at = 0;
  for (const [name, dtype, size] of answer.columns) { const Kind = kinds[dtype], bytes = size * Kind.BYTES_PER_ELEMENT; out[name] = new Kind(raw.slice(at, at + bytes).buffer); at += bytes; }
  return out;
};
const pieceOf = (pieces, id) => { const found = pieces[id]; return found ? (found[0] === 'hex' ? found[1] : show(found[1])) : ''; };

class BatchGrid {
  constructor() {
    this.node = el('div', 'ti-batchgrid'); this.space = el('div', 'ti-batchspace'); this.said = el('p', 'ti-batchsaid ti-dim');
    this.said.setAttribute('role', 'status');
    this.node.tabIndex = 0; this.node.setAttribute('role', 'grid'); this.node.append(this.space);
    this.id = FLOW.uid + '-cell';
    this.at = null;
    this.node.addEventListener('scroll', () => this.paint());
    this.node.addEventListener('keydown', (event) => this.key(event));
    this.node.addEventListener('click', ({ target }) => { const cell = target.closest('[data-line]'); if (cell) this.to(+cell.dataset.line, +cell.dataset.column); });
    new ResizeObserver(() => this.paint()).observe(this.node);
  }
  // lines: {head} or {name, cell(column) -> {text, sub, cls, words}, tall}; columns: how many there are.
  set(lines, columns, label) {
    Object.assign(this, { lines, columns });
    this.tops = []; let top = 0;
    for (const line of lines) { this.tops.push(top); top += line.tall ? GRID_TALL : GRID_LINE; }
    this.space.style.height = top + 'px'; this.space.style.width = GRID_NAME + columns * GRID_CELL + 'px';
    this.node.setAttribute('aria-label', label); this.node.setAttribute('aria-rowcount', lines.length); this.node.setAttribute('aria-colcount', columns);
    if (this.at && (!this.lines[this.at[0]] || this.lines[this.at[0]].head || this.at[1] >= columns)) this.at = null;
    this.paint();
  }
  paint() {
    if (!this.lines) return;
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.node, first = Math.max(0, Math.floor((scrollLeft - GRID_NAME) / GRID_CELL) - GRID_OVER), last = Math.min(this.columns, Math.ceil((scrollLeft + clientWidth) / GRID_CELL) + GRID_OVER), nodes = [];
    this.lines.forEach((line, k) => {
      const top = this.tops[k], height = line.tall ? GRID_TALL : GRID_LINE;
      if (top + height < scrollTop - 40 || top > scrollTop + clientHeight + 40) return;
      const row = el('div', 'ti-batchline'); row.style.top = top + 'px'; row.style.height = height + 'px'; row.setAttribute('role', 'row'); row.setAttribute('aria-rowindex', k + 1);
      const name = el('span', line.head ? 'ti-batchhead' : 'ti-batchname', line.head || line.name); name.style.left = scrollLeft + 'px'; name.setAttribute('role', 'rowheader');
      if (!line.head) for (let c = first; c < last; c++) row.append(this.cell(line, k, c));
      row.append(name);
      nodes.push(row);
    });
    this.space.replaceChildren(...nodes);
  }
  cell(line, k, c) {
    const { text, sub, cls } = line.cell(c), node = el('span', 'ti-batchcell ' + (cls || ''), text), on = this.at && this.at[0] === k && this.at[1] === c;
    node.style.left = GRID_NAME + c * GRID_CELL + 'px';
    node.setAttribute('role', 'gridcell'); node.setAttribute('aria-colindex', c + 1); node.dataset.line = k; node.dataset.column = c;
    if (sub !== undefined) node.append(el('span', 'ti-seqid', sub));
    if (on) { node.classList.add('ti-on'); node.id = this.id; this.node.setAttribute('aria-activedescendant', this.id); }
    return node;
  }
  to(k, c) {
    this.at = [k, Math.max(0, Math.min(this.columns - 1, c))];
    const x = GRID_NAME + this.at[1] * GRID_CELL, y = this.tops[k], { node } = this, height = this.lines[k].tall ? GRID_TALL : GRID_LINE;
    if (x - GRID_NAME < node.scrollLeft) node.scrollLeft = x - GRID_NAME; else if (x + GRID_CELL > node.scrollLeft + node.clientWidth) node.scrollLeft = x + GRID_CELL - node.clientWidth;
    if (y < node.scrollTop) node.scrollTop = y; else if (y + height > node.scrollTop + node.clientHeight) node.scrollTop = y + height - node.clientHeight;
    this.said.textContent = this.lines[k].cell(this.at[1]).words;
    this.paint();
  }
  key(event) {
    const rows = this.lines.flatMap((line, k) => (line.head ? [] : [k]));
    if (event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    const [k, c] = this.at || [rows[0], 0], at = rows.indexOf(k), page = Math.max(1, Math.floor((this.node.clientWidth - GRID_NAME) / GRID_CELL) - 1);
    const to = { ArrowRight: [k, this.at ? c + 1 : c], ArrowLeft: [k, c - 1], ArrowDown: [rows[Math.min(rows.length - 1, this.at ? at + 1 : at)], c], ArrowUp: [rows[Math.max(0, at - 1)], c], Home: [k, 0], End: [k, this.columns - 1], PageDown: [k, c + page], PageUp: [k, c - page] }[event.key];
    if (!to) return;
    event.preventDefault(); event.stopPropagation();
    this.to(...to);
  }
}
