// The one scroller. A model gives rows; every row is as high as its highest pane (or the sum, when panes interleave).
// Only the lines in sight exist in the DOM.
// model: {panes, rows, lines(q, k), paint(q, k, j, host), gutter(q, k, j) -> text, rowClass(k) -> class}

const LINE = 20, AHEAD = 12;

const gridCell = (node) => { node.setAttribute('role', 'gridcell'); return node; };

class Grid {
  constructor(view, space, narrow) {
    this.view = view; this.space = space; this.isNarrow = narrow; this.live = new Map(); this.model = null; this.painted = () => {};
    view.addEventListener('scroll', () => this.paint(), { passive: true });
  }

  columnsFor(model) {
    const gutter = model.gutterWidth ?? 54, panes = this.isNarrow() ? 1 : model.panes;
    return Math.max(12, Math.floor(((this.view.clientWidth - 14) / panes - gutter - 8) / measure.column));
  }

  set(model, keepScroll) {
    this.model = model;
    this.narrow = this.isNarrow();
    const top = new Uint32Array(model.rows + 1);
    for (let k = 0; k < model.rows; k++) {
      let height = 0;
      for (let q = 0; q < model.panes; q++) { const lines = model.lines(q, k); height = this.narrow ? height + lines : Math.max(height, lines); }
      top[k + 1] = top[k] + Math.max(1, height);
    }
    this.top = top;
    this.total = top[model.rows];
    this.space.style.height = this.total * LINE + 'px';
    this.view.style.setProperty('--panes', this.narrow ? 1 : model.panes);
    this.view.style.setProperty('--gutter', (model.gutterWidth ?? 54) + 'px');
    this.view.setAttribute('aria-rowcount', this.total);
    if (!keepScroll) this.view.scrollTop = 0;
    this.paint(true);
  }

  paint(force) {
    if (!this.model) return;
    const first = Math.max(0, Math.floor(this.view.scrollTop / LINE) - AHEAD);
    const last = Math.min(this.total - 1, Math.ceil((this.view.scrollTop + this.view.clientHeight) / LINE) + AHEAD);
    const kept = new Map(), fresh = document.createDocumentFragment();
    for (let v = first; v <= last; v++) {
      let line = this.live.get(v);
      if (line && force && !this.sameLine(v, line)) line = undefined;
      if (!line) { line = this.line(v); fresh.appendChild(line); }
      kept.set(v, line);
    }
    for (const [v, line] of this.live) if (kept.get(v) !== line) line.remove();
    this.live = kept;
    this.space.appendChild(fresh);
    this.painted();
  }

  line(v) {
    const { model } = this, k = lastAtMost(this.top, v, model.rows), node = el('div', 'ti-line ' + (model.rowClass ? model.rowClass(k) : ''));
    node.setAttribute('role', 'row');
    node.setAttribute('aria-rowindex', v + 1);
    node.style.top = v * LINE + 'px';
    node.look = this.look(v);
    let j = v - this.top[k];
    for (let q = 0; q < model.panes; q++) {
      const lines = model.lines(q, k);
      if (this.narrow) {
        if (j >= 0 && j < lines) node.appendChild(this.cell(q, k, j));
        j -= lines;
      } else node.appendChild(j < lines ? this.cell(q, k, j) : gridCell(el('div', 'ti-col ti-void')));
    }
    return node;
  }

  // What a line looks like, as text; null where the model does not say it.
  look(v) {
    const { model } = this, k = lastAtMost(this.top, v, model.rows);
    if (!model.look) return null;
    const said = [this.narrow, model.rowClass(k)];
    let j = v - this.top[k];
    for (let q = 0; q < model.panes; q++) {
      const lines = model.lines(q, k);
      said.push(j >= 0 && j < lines ? model.cellClass(q, k) + ' ' + model.look(q, k, j) : '');
      if (this.narrow) j -= lines;
    }
    return said.join('\u0000');
  }
  sameLine(v, node) { return node.look !== null && node.look === this.look(v); }

  cell(q, k, j) {
    const node = el('div', 'ti-col ti-col' + q + ' ' + (this.model.cellClass ? this.model.cellClass(q, k) : '')), gutter = el('span', 'ti-gut', (this.narrow && this.model.panes > 1 ? letter(q) + ' ' : '') + this.model.gutter(q, k, j));
    gutter.setAttribute('aria-hidden', 'true');
    node.appendChild(gutter);
    this.model.paint(q, k, j, node);
    return node.querySelector('[role=gridcell]') ? node : gridCell(node);  // in the token flow each token is a cell
  }

  lineOf(q, k, j) {
    let v = this.top[k] + j;
    if (this.narrow) for (let p = 0; p < q; p++) v += this.model.lines(p, k);
    return v;
  }

  reveal(v) {
    const y = v * LINE, { view } = this;
    if (y < view.scrollTop + LINE) view.scrollTop = Math.max(0, y - LINE);
    else if (y + 2 * LINE > view.scrollTop + view.clientHeight) view.scrollTop = y + 2 * LINE - view.clientHeight;
    this.paint();
  }
}

// Lines of styled parts, wrapped to the columns there are: the model of every view that is not a flow of tokens.
// perPane[q] = [{gutter, cls, parts: [[cls, text], ...]}, ...]
const linesModel = (perPane, cols, extra) => {
  const wrapped = perPane.map((lines) => lines.map((line) => wrapParts(line.parts, cols)));
  return {
    panes: perPane.length, rows: Math.max(1, ...perPane.map((lines) => lines.length)),
    lines: (q, k) => (wrapped[q][k] || []).length,
    gutter: (q, k, j) => (j ? '' : perPane[q][k].gutter ?? ''),
    paint: (q, k, j, host) => {
      if (perPane[q][k].cls) host.classList.add(...perPane[q][k].cls.split(' '));
      for (const [cls, text] of wrapped[q][k][j]) host.appendChild(el('span', cls, text));
    },
    ...extra,
  };
};
const wrapParts = (parts, cols) => {
  const lines = [[]];
  let used = 0;
  for (const [cls, raw] of parts) {
    let text = showButSpaces(raw);
    while (text.length) {
      const room = cols - used;
      if (room <= 0) { lines.push([]); used = 0; continue; }
      const take = fitting(text, room, used === 0);
      if (!take) { lines.push([]); used = 0; continue; }
      lines[lines.length - 1].push([cls, text.slice(0, take)]);
      used += columns(text.slice(0, take));
      text = text.slice(take);
    }
  }
  return lines;
};
// How many UTF-16 units of `text` fit in `room` columns; whole code points; at least one if `atStart`.
const fitting = (text, room, atStart) => {
  const head = text.slice(0, room);
  if (!/[^\x20-\x7e\u00b7]/.test(head)) return head.length;
  let at = 0, used = 0;
  for (const c of text) {
    const width = columns(c);
    if (used + width > room && !(atStart && at === 0)) break;
    used += width; at += c.length;
    if (used >= room) break;
  }
  return at;
};
