// The picture of the budget: each pane's conversation as a bar of what wrote it, what is sent beside it, and N to be dragged.
// It draws and hears; what fits is the server's answer. One scale for all panes, in tokens.

const MOST_PIECES_OF_BAR = 500, NAMED_FROM = 0.055;  // a piece of this share of the width has its name in it
const OVERHEAD_CLASS = { generation_prompt: 'prompt', inserted: 'special' };

// What the server's columns mean: runs of [part, unit it goes with, tokens] with the state of each under the decision.
const runsOf = (whole, pane) => {
  const [parts, owners, sizes] = whole.runs, { budget, ranges, rejected } = pane, lost = new Set(budget && !ranges && !rejected ? budget.dropped.map(({ path }) => path) : []), out = [];
  let at = 0;
  sizes.forEach((n, k) => {
    const from = at, unit = owners[k] >= 0 ? whole.units[owners[k]] : null;
    at += n;
    const add = (size, state) => { if (size > 0) out.push({ part: parts[k], owner: owners[k], n: size, state }); };
    if (rejected) { add(n, 'dropped'); return; }
    if (!ranges) { add(n, unit && lost.has(unit.path) ? 'dropped' : 'kept'); return; }
    let place = from;
    for (const [a, b] of ranges) { const begin = Math.max(from, a), end = Math.min(at, b); if (end <= begin) continue; add(begin - place, 'dropped'); add(end - begin, 'kept'); place = end; }
    add(at - place, 'dropped');
  });
  return out;
};
// Neighbours that would be too narrow to be seen are drawn as one piece, of the kind that has most tokens in it.
const piecesOf = (runs, least) => {
  const out = [];
  for (const run of runs) {
    const last = out[out.length - 1];
    if (last && last.state === run.state && ((last.owner === run.owner && last.part === run.part) || last.n < least || run.n < least)) {
      last.n += run.n;
      if (last.to !== run.owner && run.owner >= 0) { last.to = run.owner; last.several = true; }
      if (run.n > last.most) Object.assign(last, { part: run.part, owner: run.owner >= 0 ? run.owner : last.owner, most: run.n });
    } else out.push({ ...run, to: run.owner, most: run.n });
  }
  return out;
};
const partKey = (whole, part) => (part < whole.units.length ? whole.units[part].path : whole.overhead[part - whole.units.length]);
const pieceName = (whole, piece) => {
  const unit = piece.owner >= 0 ? whole.units[piece.owner] : null, own = piece.part < whole.units.length;
  if (piece.several) { const last = whole.units[piece.to]; return (unit ? unit.path : '') + ' \u2013 ' + last.path; }
  if (unit && own) return unit.path + (unit.role ? ' ' + showButSpaces(unit.role) : '');
  return partName(partKey(whole, piece.part)) + (unit ? ' (' + unit.path + ')' : '');
};
const shortName = (whole, piece) => {
  if (piece.several) return '\u2026';
  const key = partKey(whole, piece.part), unit = piece.part < whole.units.length ? whole.units[piece.part] : null, [, index] = /\[(\d+)\]/.exec(key) || [];
  return unit ? (unit.path.startsWith('messages') ? index + ' ' + showButSpaces(unit.role) : showButSpaces(unit.text || unit.path)) : partName(key);
};
const pieceClass = (whole, piece) => { const key = partKey(whole, piece.part); return (/^messages\[\d*[13579]\]$/.test(key) ? 'ti-odd ' : '') + 'o-' + ({ messages: 'message', tools: 'tool', documents: 'document', ...OVERHEAD_CLASS }[splitPath(key)[0]] || key); };

// The tokens that the width stands for: N where it is near the conversation, else a little more than the longest one.
const scaleOf = (totals, N, g) => {
  const most = Math.max(1, ...totals) + g;
  return N !== null && N <= 1.6 * most ? Math.max(most, N) * 1.03 : most * 1.12;
};

class BudgetBar {
  // host: {N(), g(), tried(N), chosen(N), bounds()} says and hears what is typed and dragged.
  constructor(bench, host) {
    Object.assign(this, { bench, host, most: 1, panes: [], dragging: false });
    this.node = el('div', 'ti-budgetbar');
    this.lanes = el('div', 'ti-lanes');
    this.axis = el('div', 'ti-axis');
    this.handle = focusable(el('div', 'ti-handle'), 'N');
    this.handle.append(el('span', 'ti-handleline'), this.grip = el('span', 'ti-grip'));
    this.handle.tabIndex = 0;
    this.handle.setAttribute('role', 'slider');
    this.node.append(this.axis, this.lanes, this.handle);
    for (const node of [this.handle, this.axis]) {
      node.addEventListener('pointerdown', (event) => this.down(event));
      node.addEventListener('pointermove', (event) => { if (this.dragging) this.move(event); });
      node.addEventListener('pointerup', () => this.up());
      node.addEventListener('pointercancel', () => this.up());
    }
    this.handle.addEventListener('keydown', (event) => this.key(event));
  }
  down(event) {
    if (event.button) return;
    event.preventDefault();
    this.dragging = true;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.handle.focus({ preventScroll: true });
    this.move(event);
  }
  move(event) {
    const box = this.lanes.getBoundingClientRect(), share = (event.clientX - box.left) / Math.max(1, box.width);
    this.try(Math.round(Math.max(0, Math.min(1, share)) * this.most));
  }
  up() { if (!this.dragging) return; this.dragging = false; this.host.chosen(); }
  try(N) { this.host.tried(Math.max(this.host.g() + 1, N)); this.place(); }
  key(event) {
    const { low, high } = this.host.bounds(), N = this.host.N() ?? high, step = event.shiftKey ? 10 : 1, page = Math.max(10, Math.round(high / 20));
    const to = { ArrowRight: N + step, ArrowUp: N + step, ArrowLeft: N - step, ArrowDown: N - step, PageUp: N + page, PageDown: N - page, Home: low, End: high }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || (to === undefined && event.key !== 'Delete' && event.key !== 'Backspace')) return;
    event.preventDefault(); event.stopPropagation();
    if (to === undefined) this.host.tried(null); else this.host.tried(Math.max(this.host.g() + 1, to));
    this.place();
    this.host.chosen(300);
  }
  // Where the handle stands now, without waiting for an answer.
  place() {
    const N = this.host.N(), g = this.host.g(), at = (n) => Math.max(0, Math.min(1, n / this.most)) * 100 + '%', { low, high } = this.host.bounds();
    this.node.style.setProperty('--n', N === null ? '100%' : at(N)); this.node.style.setProperty('--share', N === null ? 1 : Math.max(0, Math.min(1, N / this.most)));
    this.node.style.setProperty('--room', N === null ? '100%' : at(Math.max(0, N - g)));
    this.node.classList.toggle('ti-nolimit', N === null);
    this.node.classList.toggle('ti-beyond', N !== null && N > this.most);
    this.grip.textContent = N === null ? t('no_limit') : 'N ' + number(N) + (N > this.most ? ' \u2192' : '');
    this.handle.setAttribute('aria-label', t('context_window'));
    this.handle.setAttribute('aria-valuemin', g + 1); this.handle.setAttribute('aria-valuemax', Math.max(high, N ?? 0)); this.handle.setAttribute('aria-valuenow', N ?? high);
    this.handle.setAttribute('aria-valuetext', this.words());
    this.handle.title = t('handle_hint', { low: number(low), high: number(high) });
  }
  words() {
    const N = this.host.N();
    return (N === null ? t('no_limit') : 'N ' + number(N)) + this.panes.map(({ answer }, q) => (answer && answer.sent ? '; ' + letter(q) + ' ' + t(answer.rejected ? 'bar_rejected' : 'bar_sends', { n: number(answer.budget ? answer.budget.input_tokens : answer.total), total: number(answer.total) }) : '')).join('');
  }
  // panes: [{answer, whole}], one a pane; either may be null while nothing is known.
  draw(panes) {
    this.panes = panes;
    const N = this.host.N(), g = this.host.g(), totals = panes.map(({ whole }) => (whole ? whole.total : 0));
    if (!this.dragging) this.most = scaleOf(totals, N, N === null ? 0 : g);
    const lanes = panes.map(({ answer, whole }, q) => (whole && answer && answer.sent ? this.lane(answer, whole, q) : el('div', 'ti-lane')));
    this.lanes.replaceChildren(...lanes);
    this.ticks();
    this.place();
  }
  lane(answer, whole, q) {
    const lane = el('div', 'ti-lane'), runs = runsOf(whole, answer), least = this.most / MOST_PIECES_OF_BAR, sent = answer.budget ? answer.budget.input_tokens : whole.total;
    const line = (key, pieces, words) => {
      const row = el('div', 'ti-lanerow'), bar = el('div', 'ti-lanebar');
      row.append(el('span', 'ti-lanename', letter(q) + ' ' + t(key)), bar);
      bar.append(...pieces);
      bar.setAttribute('role', 'img'); bar.setAttribute('aria-label', letter(q) + ' ' + words);
      lane.append(row);
    };
    const all = piecesOf(runs, least).map((piece) => this.piece(whole, piece, q));
    line('bar_whole', all, t('bar_whole_words', { n: number(whole.total) }));
    const kept = answer.rejected ? [] : piecesOf(runs.filter(({ state }) => state === 'kept'), least).map((piece) => this.piece(whole, piece, q));
    if (answer.rejected) kept.push(el('span', 'ti-barnote ti-hot', '\u2717 ' + t('bar_rejected', { n: number(sent), total: number(whole.total) })));
    line('bar_sent', kept, this.words());
    return lane;
  }
  piece(whole, piece, q) {
    const node = el('span', 'ti-barpiece ' + pieceClass(whole, piece) + (piece.state === 'dropped' ? ' ti-out' : '')), share = piece.n / this.most;
    node.style.width = share * 100 + '%';
    if (share > NAMED_FROM) node.textContent = shortName(whole, piece);
    node.title = pieceName(whole, piece) + ': ' + t('count_tokens', { n: number(piece.n) }) + ' \u00b7 ' + t(piece.state);
    const key = partKey(whole, piece.part), path = piece.owner >= 0 ? whole.units[piece.owner].path : null;
    node.addEventListener('mouseenter', () => { if (piece.state === 'kept') this.bench.point({ kind: 'part', q, key }); });
    node.addEventListener('mouseleave', () => this.bench.point(null));
    node.addEventListener('click', () => { if (piece.state === 'kept') this.bench.pickPart(q, key); else if (path) jumpToPath(this.bench, q, path, null); });
    return node;
  }
  ticks() {
    const step = niceStep(this.most / 6), marks = [];
    for (let n = 0; n <= this.most; n += step) { const mark = el('span', 'ti-axismark', number(n)); mark.style.left = (n / this.most) * 100 + '%'; marks.push(mark); }
    this.axis.replaceChildren(...marks);
  }
}
const niceStep = (rough) => { const base = 10 ** Math.floor(Math.log10(Math.max(1, rough))), times = [1, 2, 5, 10].find((k) => k * base >= rough); return Math.max(1, (times || 10) * base); };

// Fixed sentences of the checks, for `said`.
SENTENCES.push(
  [/^(\d+) of (\d+) tokens, control tokens counted$/, 'said_check_limit', ['n', 'limit']],
  [/^the request has none$/, 'said_check_none', []],
  [/^(\S+) is whole$/, 'said_check_whole', ['path']],
  [/^(\S+) is not whole$/, 'said_check_not_whole', ['path']],
  [/^every result has its call$/, 'said_check_pairs', []],
  [/^(\S+) stands alone$/, 'said_check_alone', ['path']],
  [/^all are whole$/, 'said_check_all', []],
  [/^not whole: ([^]*)$/, 'said_check_missing', ['paths']],
  [/^none was asked for, or the template writes none$/, 'said_check_no_prompt', []],
  [/^one, at the end$/, 'said_check_one', []],
  [/^(\d+) in the input$/, 'said_check_number', ['n']],
  [/^it is the first token$/, 'said_check_bos_first', []],
  [/^the template writes none at the start$/, 'said_check_bos_none', []],
  [/^the first token is another one$/, 'said_check_bos_other', []],
  [/^ids, spans, flags and mask have \[(\d+)\] entries$/, 'said_check_columns', ['n']],
  [/^(\d+) ids, (\d+) of the mask, (\d+) positions$/, 'said_check_lengths', ['ids', 'mask', 'positions']],
);
