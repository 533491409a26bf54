// Part of Bench: the keyboard in the grid - tokens, panes, differences, template lines.

class Keys {
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || VIEW_MODELS[this.view].panel) return;
    const act = (this.templateHas(event) ? this.lineKeys() : this.tokenKeys(event.shiftKey))[event.key];
    if (!act) return;
    event.preventDefault(); event.stopPropagation();
    act();
  }
  templateHas(event) { return this.view === 'template' || event.currentTarget.classList.contains('ti-second'); }
  tokenKeys(extend) {
    const { panes } = this.state, [q, i] = this.selected || [0, -1], to = (k) => this.select(q, k, true, extend);
    return {
      ArrowRight: () => to(i + 1), ArrowLeft: () => to(Math.max(0, i - 1)),
      ArrowDown: () => this.vertical(q, i, 1, extend), ArrowUp: () => this.vertical(q, i, -1, extend),
      Home: () => to(0), End: () => to(panes[q].n - 1),
      PageDown: () => this.vertical(q, i, this.page(), extend), PageUp: () => this.vertical(q, i, -this.page(), extend),
      '[': () => this.across(q, i, -1), ']': () => this.across(q, i, 1),
      n: () => this.difference(1), p: () => this.difference(-1),
      Enter: () => this.jump(), g: () => this.jump(), l: () => this.jump('line'), Escape: () => this.goBack(),
    };
  }
  // In the template the arrows go from one line that wrote bytes to the next.
  lineKeys() {
    const q = this.pick && this.pick.kind === 'line' ? this.pick.q : (this.link && this.link.q) || 0, lines = (k) => Array.from(new Set(this.state.panes[k].segments.line)).filter((line) => line > 0).sort((x, y) => x - y);
    const own = lines(q), here = this.link ? Math.min(...this.link.panes[q].lines, Infinity) : Infinity;
    const step = (d) => { const next = d > 0 ? own.find((line) => here === Infinity || line > here) : own.filter((line) => line < here).pop(); if (next !== undefined) this.pickLine(q, next); };
    const cross = (d) => () => { const p = this.beside(q, d), there = this.link ? [...this.link.panes[p].lines] : [], all = lines(p); if (there.length || all.length) this.pickLine(p, there.length ? Math.min(...there) : all[0]); };
    return {
      ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => step(1), ArrowLeft: () => step(-1),
      Home: () => { if (own.length) this.pickLine(q, own[0]); }, End: () => { if (own.length) this.pickLine(q, own[own.length - 1]); },
      '[': cross(-1), ']': cross(1), Enter: () => this.jumpToTokens(), g: () => this.jumpToTokens(), Escape: () => this.goBack(),
    };
  }
  page() { return Math.max(1, Math.floor(this.$('.ti-grid').clientHeight / LINE) - 2); }
  vertical(q, i, step, extend) {
    const { model } = this.grid;
    if (i < 0) { this.select(q, 0, true); return; }
    if (!model.layout) { this.select(q, Math.max(0, Math.min(this.state.panes[q].n - 1, i + step)), true, extend); return; }
    const { lineStart: lineToken } = model.layout[q], line = lastAtMost(lineToken, i, lineToken.length), to = Math.max(0, Math.min(lineToken.length - 1, line + step));
    if (to === line) return;
    const end = to + 1 < lineToken.length ? lineToken[to + 1] : this.state.panes[q].n;
    this.select(q, Math.min(end - 1, lineToken[to] + i - lineToken[line]), true, extend);
  }
  // The pane d places on, from the last to the first.
  beside(q, d) { const { length } = this.state.panes; return (q + d + length) % length; }
  across(q, i, d) {
    const p = this.beside(q, d), { rows, panes } = this.state;
    if (i < 0) { this.select(p, 0, true); return; }
    const link = rows.linked(q, i, p), k = rows.ofToken(q, i);
    this.select(p, link ? link[0] : Math.min(rows.token[p][k], panes[p].n - 1), true);
  }
  difference(step) {
    const { rows } = this.state, at = this.selected ? rows.ofToken(...this.selected) : -1;
    const differs = (k) => rows.tag[k] === TEXT_DIFFERS || rows.tag[k] === IDS_DIFFER;
    let k = at + step;
    if (at >= 0) while (k >= 0 && k < rows.n && differs(k) && differs(k - step)) k += step;
    while (k >= 0 && k < rows.n && !differs(k)) k += step;
    if (step < 0) while (k > 0 && differs(k) && differs(k - 1)) k--;
    if (k < 0 || k >= rows.n) return;
    const own = this.selected ? this.selected[0] : 0;
    for (const q of [own, ...this.state.panes.keys()]) if (rows.token[q][k] < rows.token[q][k + 1]) { this.select(q, this.firstChanged(q, k), true); return; }
  }
  firstChanged(q, k) {
    const { rows, panes } = this.state, changed = rows.changed(q, k), p = q ? 0 : rows.tags.findIndex((tags, other) => other && tags[k] === IDS_DIFFER);
    let i = rows.token[q][k];
    if (changed) while (i + 1 < rows.token[q][k + 1] && panes[q].end[i] <= changed[0]) i++;
    else if (p >= 0 && rows.tags[q][k] === IDS_DIFFER) { const from = rows.token[p][k]; while (i + 1 < rows.token[q][k + 1] && panes[q].ids[i] === panes[p].ids[from + i - rows.token[q][k]]) i++; }
    return i;
  }
}
