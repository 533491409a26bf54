// Part of Bench: the keyboard in the grid - tokens, panes, differences, template lines.

const HELP_KEYS = [['n / p', 'difference'], ['[ / ]', 'pane'], ['\u2190 \u2192 \u2191 \u2193', 'move'], ['Shift + \u2190 \u2192', 'extend'], ['Enter, g', 'origin'], ['l', 'line'], ['Esc', 'back'], ['Ctrl + Z / Ctrl + Shift + Z', 'undo'], ['Alt + \u2191 \u2193', 'message']];

class Keys {
  // Single letters as shortcuts can be switched off: speech input types them by accident.
  get letters() { return stored('localStorage', 'letters') !== '0'; }
  listenKeys() {
    const box = this.$('.ti-letters'), dialog = this.$('.ti-help');
    box.addEventListener('change', () => keep('localStorage', 'letters', (this.lettersOff = !box.checked) ? '0' : '1'));
    this.lettersOff = !this.letters;
    dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });
  }
  showHelp() {
    this.$('.ti-letters').checked = !this.lettersOff;
    this.$('.ti-keys tbody').replaceChildren(...HELP_KEYS.map(([keys, name]) => { const row = el('tr'), head = el('th', '', keys); head.scope = 'row'; row.append(head, el('td', '', t('help_' + name))); return row; }));
    this.$('.ti-help').showModal();
    this.watchServer(this.$('.ti-server'));
  }
  key(event) {
    if (this.lettersOff && /^[a-z]$/i.test(event.key)) return;
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
  // Where no field takes the key: n and p go to the differences from anywhere on the page.
  keyAnywhere(event) {
    const { target, key } = event;
    if (this.lettersOff || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !['n', 'p'].includes(key) || !VIEW_MODELS[this.view].steps) return;
    if (target.isContentEditable || target.closest('input, textarea, select, dialog, .ti-second') || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    this.difference(key === 'n' ? 1 : -1);
    this.$('.ti-grid').focus({ preventScroll: true });
  }
  // To the next or previous stretch that differs, in the pane of the selection if it has it.
  difference(step) {
    const { rows, panes } = this.state, stops = rows.differences(), [q, i] = this.selected || [0, -1];
    const k = this.selected ? rows.ofToken(q, i) : step > 0 ? -1 : rows.n, link = this.selected && q ? rows.linked(q, i, 0) : null, ofA = q ? (link ? link[0] : rows.token[0][k]) : i;
    const ahead = (stop) => stop.k - k || (stop.at[q] !== undefined ? stop.at[q] - i : (stop.at[0] ?? rows.token[0][k]) - ofA);
    const to = step > 0 ? stops.findIndex((stop) => ahead(stop) > 0) : stops.findLastIndex((stop) => ahead(stop) < 0);
    if (to >= 0) {
      const { at } = stops[to], p = at[q] !== undefined ? q : [...panes.keys()].find((each) => at[each] !== undefined);
      this.select(p, at[p], true);
      this.tellStop(t('difference_of', { k: number(to + 1), n: number(stops.length) }));
    } else if (!rows.stale.some(Boolean)) this.tellStop(t(!stops.length ? 'difference_none' : step > 0 ? 'difference_last' : 'difference_first', { n: number(stops.length) }));
  }
  tellStop(text) {
    const node = this.$('.ti-copied');
    node.textContent = text;
    clearTimeout(this.stopTimer);
    this.stopTimer = setTimeout(() => { if (node.textContent === text) node.textContent = ''; }, 5000);
  }
}
