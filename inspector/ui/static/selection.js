// Part of Bench: what is selected and what the mouse is over, lit in every view that is drawn, in all panes and in the editors.

// The panes of a link, the one that was pointed at first.
const panesOf = (link) => { const all = [...link.panes.keys()]; return link.q ? [link.q, ...all.filter((q) => q !== link.q)] : all; };

class Selection {
  select(q, i, reveal, extend) {
    const pane = this.state.panes[q];
    if (i < 0 || i >= pane.n) return;
    const anchor = extend && this.selected && this.selected[0] === q ? this.anchor ?? this.selected[1] : i;
    this.choose({ kind: 'tokens', q, from: Math.min(anchor, i), to: Math.max(anchor, i) + 1 }, reveal, [q, i]);
    this.anchor = anchor;
  }
  // Make a pick the selection; `focus` is the token that the arrows go on from.
  choose(pick, reveal, focus) {
    this.pick = pick;
    this.resolve(focus);
    this.mark();
    if (reveal && this.link) this.reveal();
    this.drawCard(); this.say();
    this.remember(true);
  }
  resolve(focus) {
    this.link = this.pick ? linkOf(this.state, this.pick) : null;
    this.selected = focus || this.firstToken(this.link);
    this.anchor = null;
  }
  firstToken(link) {
    if (!link) return null;
    for (const q of panesOf(link)) if (link.panes[q].tokens.length) return [q, link.panes[q].tokens[0][0]];
    return null;
  }
  clear() { this.pick = this.link = this.selected = null; this.mark(); this.drawCard(); this.say(); this.remember(true); }
  keepSelection() {
    this.point(null);
    const { pick } = this, { panes } = this.state;
    if (!pick) return;
    if (pick.kind === 'tokens' && pick.to > panes[pick.q].n) { this.clear(); return; }
    const focus = pick.kind === 'tokens' && this.selected ? this.selected : null, { anchor } = this;
    this.resolve(focus); this.anchor = anchor;
    this.drawCard();
  }
  // What the mouse is over; null for nothing.
  point(pick) {
    if (samePick(pick, this.pointed)) return;
    this.pointed = pick;
    this.hoverLink = pick ? linkOf(this.state, pick) : null;
    this.mark();
    if (!this.selected) this.drawCard();
  }
  // Bring the selection into sight in every grid that is drawn, and in the editors.
  reveal() {
    for (const [grid, view] of this.spots()) {
      if (view === 'template') this.faceLines(grid);
      else if (view === 'bytes') this.faceBytes(grid);
      else if (grid.model.unfold && this.selected && grid.model.unfold(...this.selected)) grid.set(this.modelOf(view, grid), true);
      const at = this.placeIn(grid, view);
      if (at !== null) grid.reveal(at);
    }
    for (const editor of this.editors) if (!editor.active()) editor.reveal();
  }
  // Let the first linked lines of all templates stand side by side, and the first linked bytes of all panes: those of some
  // panes may lie far from those of others. What was pointed at stays where it is.
  faceLines(grid) {
    const lines = this.link.panes.map((part) => (part.lines.size ? Math.min(...part.lines) : null)), known = lines.filter((line) => line !== null), q = lines[this.link.q || 0] === null ? lines.findIndex((line) => line !== null) : this.link.q || 0;
    if (!known.length) return;
    const shift = lines.map((line) => (line === null ? 0 : Math.max(...known) - line));
    if (shift.join() === this.state.shift.join()) return;
    this.face(grid, 'template', () => grid.lineOf(q, Math.min(grid.model.rows, grid.model.rowOf(q, lines[q])), 0), () => { this.state.shift = shift; });
  }
  faceBytes(grid) {
    const faced = this.link.panes.map(({ bytes }) => (bytes.length ? bytes[0][0] : null));
    if (!this.selected || faced.join() === this.state.faced.join()) return;
    this.face(grid, 'bytes', () => this.placeIn(grid, 'bytes'), () => { this.state.faced = faced; });
  }
  face(grid, view, line, move) {
    const before = line();
    move();
    grid.set(this.modelOf(view, grid), true);
    grid.view.scrollTop += LINE * (line() - before);
  }
  placeIn(grid, view) {
    const { model } = grid;
    if (view !== 'template') { if (!model.place || !this.selected) return null; const [q, i] = this.selected, [k, j] = model.place(q, i); return grid.lineOf(q, k, j); }
    for (const q of panesOf(this.link)) {
      const lines = [...this.link.panes[q].lines].sort((x, y) => x - y);
      if (lines.length) return model.rowOf(q, lines[0]) < model.rows ? grid.lineOf(q, model.rowOf(q, lines[0]), 0) : null;
    }
    return null;
  }
  // Light what the selection and the mouse point at, in every view that is drawn, every pane, and the editors.
  mark() {
    for (const [node, cls] of this.marked) node.classList.remove(cls);
    this.marked = [];
    const put = (node, cls) => { node.classList.add(cls); this.marked.push([node, cls]); };
    for (const [link, own, linked] of [[this.hoverLink, 'ti-hv', 'ti-hl'], [this.link, 'ti-on', 'ti-lk']]) {
      if (!link) continue;
      for (const [grid, view] of this.spots()) link.panes.forEach((part, q) => this.markPart(grid, view, q, part, link.q === null || link.q === q ? own : linked, put));
    }
    this.lightEditors({ 'ti-on': this.link ? this.link.fields : [], 'ti-hv': this.hoverLink ? this.hoverLink.fields : [] });
    const grid = this.$('.ti-grid');
    if (this.selected) grid.setAttribute('aria-activedescendant', FLOW.uid + '-' + this.selected[0] + '-' + this.selected[1]); else grid.removeAttribute('aria-activedescendant');
  }
  lightEditors(layers) {
    if (this.lit || Object.values(layers).some((fields) => fields.length)) this.lit = this.editors.map((editor) => editor.light(layers)).some(Boolean);
  }
  markPart(grid, view, q, part, cls, put) {
    if (view === 'template') { this.markLines(grid, q, part.lines, cls, put); return; }
    const pane = this.state.panes[q], inTokens = (i) => part.tokens.some(([from, to]) => i >= from && i < to);
    const few = part.tokens.length <= 8;
    for (const node of grid.space.querySelectorAll('[data-q="' + q + '"]')) {
      const i = node.dataset.i;
      const lit = i === undefined ? touches(part.bytes, +node.dataset.b, +node.dataset.e) : few || pane.start[i] === pane.end[i] ? inTokens(+i) : touches(part.bytes, pane.start[i], pane.end[i]);
      if (lit) put(node, cls);
    }
  }
  markLines(grid, q, lines, cls, put) {
    if (!lines.size) return;
    for (const [v, node] of grid.live) {
      if (!lines.has(grid.model.lineAt(q, lastAtMost(grid.top, v, grid.model.rows)))) continue;
      const column = node.querySelector('.ti-col' + q);
      if (column) put(column, cls);
    }
  }
  // Say the selection to screen readers: what it is, where it comes from, what it corresponds to.
  say() {
    clearTimeout(this.sayTimer);
    this.sayTimer = setTimeout(() => { this.$('.ti-say').textContent = this.link ? this.spoken() : ''; }, 120);
  }
  spoken() {
    const said = [];
    this.link.panes.forEach((part, q) => {
      const pane = this.state.panes[q], count = part.tokens.reduce((sum, [i, j]) => sum + j - i, 0);
      if (!count && !part.lines.size) return;
      const one = count === 1 ? ' ' + pane.piece(part.tokens[0][0]) : '', lines = [...part.lines].sort((x, y) => x - y);
      said.push(letter(q) + ': ' + t('count_tokens', { n: number(count) }) + one + (lines.length ? ', ' + t('template_lines', { lines: lines.slice(0, 5).join(', ') + (lines.length > 5 ? ' \u2026' : '') }) : ''));
    });
    const paths = [...new Set((this.pick.kind === 'fields' ? this.pick.fields : this.link.fields).map((field) => pathText(field.steps)))];
    if (paths.length) said.push(t('from_fields', { paths: paths.slice(0, 3).join(', ') + (paths.length > 3 ? ' \u2026' : '') }));
    return said.join('; ') || t('nothing_linked');
  }
  tell(text) { clearTimeout(this.sayTimer); this.$('.ti-say').textContent = text; }
}
