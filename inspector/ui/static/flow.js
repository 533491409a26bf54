// The token flow: every token a cell, rows broken into lines at token boundaries. Also draws the rendered text by origin.

const FLOW = { ids: false, uid: 'ti' + Math.random().toString(36).slice(2, 8) };
const LONGEST = 160;  // characters of one token that are drawn; the card has the rest

// What one unit (a token, or the tokens that share characters) looks like.
const unitText = (pane, i, j) => {
  if (pane.start[i] === pane.end[j - 1]) return show(pane.piece(i));
  return show(pane.text(pane.start[i], pane.end[j - 1]));
};
const cut = (text, most) => {
  if (text.length <= most) return text;
  const head = Array.from(text.slice(0, most)).slice(0, -1).join('');
  return head + '\u2026+' + (Array.from(text).length - Array.from(head).length);
};
const isMarked = (pane, i) => (pane.flags[i] & (FLAG.special | FLAG.added | FLAG.inserted)) !== 0;
const prefixOf = (pane, i) => (pane.has(i, 'from_content') || pane.has(i, 'crosses_segment') ? '\u26a0' : pane.has(i, 'inserted') ? '\u2295' : '');

const unitWidth = (pane, i, j, most) => {
  let width;
  const from = pane.start[i], to = pane.end[j - 1];
  if (to > from && to - from <= most && isPlain(pane.bytes, from, to)) width = to - from;
  else width = columns(cut(unitText(pane, i, j), most));
  if (isMarked(pane, i)) width += 1 + columns(prefixOf(pane, i) || '');
  if (j - i > 1) for (let m = i; m < j; m++) width += String(pane.ids[m]).length + 1;
  else if (FLOW.ids) width += String(pane.ids[i]).length + 1;
  return width;
};

// Where the lines of a pane's rows begin: `lineStart` for all rows in turn, `rowLine[r]` the first line of row r (with one
// more at the end). `breakRow(pane, r, push)` pushes the starts of a row's lines; `unit(pane, r)` is where row r begins in
// what they count (tokens or bytes). Rows that an answer left as they were keep their lines.
const linesIn = (pane, key, unit, breakRow) => {
  const known = pane.layouts.get(key);
  if (known) return known;
  const numRows = cutsOf(pane).length - 1, old = pane.before && pane.before.pane.layouts.get(key), kept = old ? rowsKept(pane) : [0, 0], last = numRows - kept[1];
  const middle = [], rowLine = new Uint32Array(numRows + 1), headLines = old ? old.rowLine[kept[0]] : 0;
  if (old) rowLine.set(old.rowLine.subarray(0, kept[0] + 1));
  for (let r = kept[0]; r < last; r++) {
    rowLine[r] = headLines + middle.length;
    breakRow(pane, r, middle);
  }
  rowLine[last] = headLines + middle.length;
  const shift = old ? { from: old.rowLine.length - 1 - kept[1], by: unit(pane, numRows) - unit(pane.before.pane, old.rowLine.length - 1) } : null;
  const tail = old ? old.lineStart.subarray(old.rowLine[shift.from]) : new Uint32Array(0), lineStart = new Uint32Array(rowLine[last] + tail.length);
  if (old) lineStart.set(old.lineStart.subarray(0, headLines));
  lineStart.set(middle, headLines);
  for (let k = 0; k < tail.length; k++) lineStart[rowLine[last] + k] = tail[k] + shift.by;
  for (let r = last + 1; r <= numRows; r++) rowLine[r] = old.rowLine[shift.from + r - last] - old.rowLine[shift.from] + rowLine[last];
  const layout = { lineStart, rowLine };
  if (pane.layouts.size > 4) pane.layouts.clear();
  pane.layouts.set(key, layout);
  return layout;
};
// How many rows at both ends of a pane are those of the one before, with the same tokens.
const rowsKept = (pane) => {
  const { head, tail, pane: old } = pane.before, [now, then] = [cutsOf(pane), cutsOf(old)], rows = Math.min(now.length, then.length) - 1;
  let first = 0, last = 0;
  while (first < rows && now[first + 1] === then[first + 1] && now[first + 1] <= head) first++;
  const from = (cuts, k) => cuts[cuts.length - 1] - cuts[cuts.length - 1 - k];
  while (last < rows - first && from(now, last + 1) === from(then, last + 1) && from(now, last + 1) <= tail) last++;
  return [first, last];
};
const layoutFlow = (pane, cols) => {
  const most = Math.min(LONGEST, cols - 8), cuts = cutsOf(pane);
  return { most, ...linesIn(pane, 'tokens' + cols + FLOW.ids + measure.font, (each, r) => cutsOf(each)[r], (_, r, starts) => {
    const from = cuts[r], to = cuts[r + 1];
    let used = 0;
    for (let i = from; i < to;) {
      const j = pane.groupEnd(i), width = unitWidth(pane, i, j, most);
      if (i === from || used + width > cols) { starts.push(i); used = 0; }
      used += width;
      i = j;
    }
  }) };
};
// What the flows share: lines of the aligned rows, from the layouts of the panes.
const flowModel = (state, layout) => {
  const { panes, rows } = state, lineAt = (q, k, j) => layout[q].rowLine[rows.own[q][k]] + j;
  return {
    panes: panes.length, rows: rows.n,
    lines: (q, k) => { const r = rows.own[q][k]; return r < 0 ? 0 : layout[q].rowLine[r + 1] - layout[q].rowLine[r]; },
    rowClass: (k) => ['', 'ti-diff', 'ti-iddiff'][rows.tag[k]],
    cellClass: (q, k) => ['', 'ti-differs', 'ti-iddiffers'][rows.tags[q][k]],
    // The first token or byte of a line, and what follows its last; `end` is what follows the row.
    extent: (q, k, j, end) => { const line = lineAt(q, k, j), { lineStart, rowLine } = layout[q]; return [lineStart[line], line + 1 < rowLine[rows.own[q][k] + 1] ? lineStart[line + 1] : end]; },
    // The row, and the line in it, that hold a token or byte of row k.
    lineOf: (q, k, unit) => { const r = rows.own[q][k], { lineStart, rowLine } = layout[q], count = r < 0 ? 0 : rowLine[r + 1] - rowLine[r]; return [k, count ? lastAtMost(lineStart.subarray(rowLine[r], rowLine[r + 1]), unit, count) : 0]; },
  };
};

const cellClass = (pane, i, colour) => {
  const names = ['ti-tok', toneOf(pane, i, colour)];
  if (colour !== 'alternate') names.push('ti-edge');
  for (const flag of ['special', 'added', 'inserted', 'from_content', 'crosses_segment', 'look_alike', 'unknown', 'byte_fallback', 'generation_prompt'])
    if (pane.has(i, flag)) names.push('f-' + flag);
  return names.join(' ');
};
const TONES = {
  origin: (pane, i) => originClass(pane.origin(i)),
  trained: (pane, i) => trainedClass(pane.has(i, 'assistant')),
  id: (pane, i) => 'h' + hueOf(pane.ids[i]),
  turn: (pane, i) => turnClass(pane.origin(i)),
};
const toneOf = (pane, i, colour) => (TONES[colour] ? TONES[colour](pane, i) : 'k' + (i & 1));
// The same id has the same hue everywhere: the top bits of a multiplicative hash, so that neighbouring ids differ.
const NUM_HUES = 12;
const hueOf = (id) => Math.floor(((Math.imul(id, 2654435761) >>> 0) / 4294967296) * NUM_HUES);
// What a message wrote, in the colour of its place among the messages; all else stays plain.
const turnClass = (origin) => { const found = origin && /^messages\[(\d+)\]/.exec(origin.path); return found ? 'h' + (found[1] * 5) % NUM_HUES : 'o-template'; };
const trainedClass = (learned) => (learned ? 'ti-learned' : 'ti-unlearned');
const originClass = (origin) => 'o-' + (origin ? origin.kind : 'special');

const tokenNode = (tag, q, i, cls, text, tokenLabel) => {
  const node = el(tag, cls, text);
  node.id = FLOW.uid + '-' + q + '-' + i;
  node.dataset.q = q; node.dataset.i = i;
  node.setAttribute('role', 'gridcell');
  if (tokenLabel) node.setAttribute('aria-label', tokenLabel);
  return node;
};
// Non-ASCII cells get their width in columns, so that lines stay as wide as the layout says.
const fixWidth = (node, text) => {
  if (/[^\x20-\x7e\u00b7]/.test(text)) { node.classList.add('ti-wide'); node.style.width = columns(text) + 'ch'; }
  return node;
};
const drawUnit = (pane, q, i, j, most, colour) => {
  const text = cut(unitText(pane, i, j), most);
  if (j - i > 1) return drawGroup(pane, q, i, j, text, colour);
  const marked = prefixOf(pane, i), node = tokenNode('span', q, i, cellClass(pane, i, colour));
  if (marked) node.appendChild(fixWidth(el('i', 'ti-mark', marked), marked));
  node.appendChild(fixWidth(el('span', '', text), text));
  if (FLOW.ids) node.appendChild(el('sub', 'ti-id', String(pane.ids[i])));
  return node;
};
const drawGroup = (pane, q, i, j, text, colour) => {
  const group = el('span', 'ti-group ' + toneOf(pane, i, colour));
  group.title = t('split_character', { n: j - i });
  group.appendChild(fixWidth(el('span', 'ti-glyph', text), text));
  for (let m = i; m < j; m++) group.appendChild(tokenNode('span', q, m, cellClass(pane, m, colour) + ' ti-part', String(pane.ids[m]), t('part_label', { id: pane.ids[m], bytes: hex(pane.slice(m)) })));
  return group;
};

const tokensModel = (state, cols, colour) => {
  const { panes, rows } = state, layout = panes.map((pane) => layoutFlow(pane, cols)), flow = flowModel(state, layout);
  const tokens = (q, k, j) => flow.extent(q, k, j, rows.token[q][k + 1]);
  return {
    ...flow, layout,
    gutter: (q, k, j) => String(tokens(q, k, j)[0]),
    paint: (q, k, j, host) => {
      const pane = panes[q], changed = rows.changed(q, k), { most } = layout[q], [from, end] = tokens(q, k, j);
      for (let i = from; i < end;) {
        const next = pane.groupEnd(i), node = drawUnit(pane, q, i, next, most, colour);
        if (changed && pane.end[next - 1] > changed[0] && pane.start[i] < changed[1]) node.classList.add('ti-chg');
        host.appendChild(node);
        i = next;
      }
    },
    // All that decides what a line looks like.
    look: (q, k, j) => {
      const pane = panes[q], [from, end] = tokens(q, k, j), said = [language, colour, FLOW.ids, cols, from, end, pane.ids.subarray(from, end), pane.flags.subarray(from, end), pane.columns.length.subarray(from, end)];
      if (colour !== 'alternate') for (let i = from; i < end; i++) said.push(toneOf(pane, i, colour));
      const changed = rows.changed(q, k), text = end > from ? pane.text(pane.start[from], pane.end[end - 1]) : '';
      return said.join() + (changed ? '|' + (changed[0] - pane.start[from]) + ',' + (changed[1] - pane.start[from]) : '') + '|' + text;
    },
    place: (q, i) => flow.lineOf(q, rows.ofToken(q, i), i),
  };
};

const originText = (origin) => {
  if (!origin) return t('origin_inserted');
  const place = [t('kind_' + origin.kind)];
  if (origin.path) place.push(origin.path + (origin.field >= 0 ? ' @ ' + origin.field : ''));
  if (origin.line > 0) place.push(t('template_line', { n: origin.line }));
  return place.join(' \u00b7 ');
};
