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

// Line starts of every row: flat per pane, with the first line of each row.
const layoutFlow = (pane, rowToken, numRows, cols) => {
  const lineToken = [], rowLine = new Uint32Array(numRows + 1), most = Math.min(LONGEST, cols - 8);
  for (let k = 0; k < numRows; k++) {
    rowLine[k] = lineToken.length;
    const from = rowToken[k], to = rowToken[k + 1];
    let used = 0;
    for (let i = from; i < to;) {
      const j = pane.groupEnd(i), width = unitWidth(pane, i, j, most);
      if (i === from || used + width > cols) { lineToken.push(i); used = 0; }
      used += width;
      i = j;
    }
  }
  rowLine[numRows] = lineToken.length;
  return { lineToken: Uint32Array.from(lineToken), rowLine, most };
};

const cellClass = (pane, i, colour) => {
  const names = ['ti-tok', toneOf(pane, i, colour)];
  if (colour !== 'alternate') names.push('ti-edge');
  for (const flag of ['special', 'added', 'inserted', 'from_content', 'crosses_segment', 'look_alike', 'unknown', 'byte_fallback', 'generation_prompt'])
    if (pane.has(i, flag)) names.push('f-' + flag);
  return names.join(' ');
};
const toneOf = (pane, i, colour) => (colour === 'origin' ? originClass(pane.origin(i)) : colour === 'trained' ? trainedClass(pane.has(i, 'assistant')) : 'k' + (i & 1));
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
  const { panes, rows } = state, layout = panes.map((pane, q) => layoutFlow(pane, rows.token[q], rows.n, cols));
  return {
    panes: panes.length, rows: rows.n, layout,
    lines: (q, k) => layout[q].rowLine[k + 1] - layout[q].rowLine[k],
    gutter: (q, k, j) => String(layout[q].lineToken[layout[q].rowLine[k] + j]),
    rowClass: (k) => ['', 'ti-diff', 'ti-iddiff'][rows.tag[k]],
    paint: (q, k, j, host) => {
      const { lineToken, rowLine, most } = layout[q], line = rowLine[k] + j, end = line + 1 < rowLine[k + 1] ? lineToken[line + 1] : rows.token[q][k + 1];
      const changed = changedBytes(rows, q, k);
      for (let i = lineToken[line]; i < end;) {
        const next = panes[q].groupEnd(i), node = drawUnit(panes[q], q, i, next, most, colour);
        if (changed && panes[q].end[next - 1] > changed[0] && panes[q].start[i] < changed[1]) node.classList.add('ti-chg');
        host.appendChild(node);
        i = next;
      }
    },
    place: (q, i) => {
      const k = rows.ofToken(q, i), { lineToken, rowLine } = layout[q];
      const line = lastAtMost(lineToken.subarray(rowLine[k], rowLine[k + 1]), i, rowLine[k + 1] - rowLine[k]);
      return [k, line];
    },
  };
};
const changedBytes = (rows, q, k) => {
  if (rows.panes.length < 2 || rows.tag[k] !== TEXT_DIFFERS) return null;
  const { head, tail } = rows.edges(k), [from, to] = rows.span(q, k);
  return [from + head, to - tail];
};

const originText = (origin) => {
  if (!origin) return t('origin_inserted');
  const place = [t('kind_' + origin.kind)];
  if (origin.path) place.push(origin.path + (origin.field >= 0 ? ' @ ' + origin.field : ''));
  if (origin.line > 0) place.push(t('template_line', { n: origin.line }));
  return place.join(' \u00b7 ');
};
