// Part of Bench: from a place under the mouse to a pick.

class Mouse {
  tokenOf(target) {
    const node = target.closest('[data-i], [data-b]');
    if (node) { const q = +node.dataset.q; return node.dataset.i !== undefined ? [q, +node.dataset.i] : [q, this.state.panes[q].tokenAt(+node.dataset.b)]; }
    const group = target.closest('.ti-group');
    if (group) return this.tokenOf(group.querySelector('[data-i]'));
    return null;
  }
  // A line of the template: [pane, line].
  lineOf(target) {
    const column = target.closest('.ti-col:not(.ti-void)');
    if (!column) return null;
    const q = this.state.panes.findIndex((_, p) => column.classList.contains('ti-col' + p)), grid = column.closest('.ti-second') ? this.second : this.grid, v = +column.parentNode.getAttribute('aria-rowindex') - 1;
    return [q, grid.model.lineAt(q, lastAtMost(grid.top, v, grid.model.rows))];
  }
  pickOf(target, view) {
    if (view === 'template') { const line = this.lineOf(target); return line && { kind: 'line', q: line[0], line: line[1] }; }
    const token = this.tokenOf(target);
    return token && token[1] >= 0 ? { kind: 'tokens', q: token[0], from: token[1], to: token[1] + 1 } : null;
  }
  hover(event, view) {
    const pick = this.pickOf(event.target, view);
    if (pick) this.point(pick);
  }
  click(event, view) {
    if (this.dragged) { this.dragged = false; return; }
    const pick = this.pickOf(event.target, view);
    if (!pick) return;
    this.back = null;
    if (pick.kind === 'line') this.choose(pick, true); else this.select(pick.q, pick.from, true, event.shiftKey);
  }
  // Text that was selected with the mouse in a flow of tokens, bytes or text is a range of bytes.
  pickDragged() {
    const chosen = window.getSelection(), nodeOf = (node) => (node.nodeType === 1 ? node : node.parentNode).closest('[data-q]');
    this.dragged = false;
    if (!VIEW_MODELS[this.view].flow || !chosen || chosen.isCollapsed || !chosen.rangeCount) return;
    const range = chosen.getRangeAt(0), a = nodeOf(range.startContainer), b = nodeOf(range.endContainer);
    if (!a || !b || a === b || a.dataset.q !== b.dataset.q || !this.$('.ti-grid').contains(a)) return;
    const q = +a.dataset.q, [from, to] = [this.edge(q, a, range.startContainer, range.startOffset)[0], this.edge(q, b, range.endContainer, range.endOffset)[1]];
    if (to <= from) return;
    this.dragged = true;
    this.back = null;
    this.choose({ kind: 'bytes', q, from, to }, false);
  }
  // Bytes [from, to) at an end of a mouse selection: exact where a cell shows plain text, else the whole cell.
  edge(q, node, container, offset) {
    const pane = this.state.panes[q], i = node.dataset.i, [from, to] = i === undefined ? [+node.dataset.b, +node.dataset.e] : [pane.start[i], pane.end[i]];
    const exact = i === undefined && container.nodeType === 3 && container.length === to - from && isPlain(pane.bytes, from, to);
    return exact ? [from + offset, from + offset] : [from, to];
  }
}
