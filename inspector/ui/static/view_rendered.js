// Rendered text by origin: the same rows, cut at characters and at segment borders.

const renderedModel = (state, cols) => {
  const { panes, rows } = state, layout = panes.map((pane, q) => layoutText(pane, rows, q, cols));
  return {
    panes: panes.length, rows: rows.n,
    lines: (q, k) => layout[q].rowLine[k + 1] - layout[q].rowLine[k],
    gutter: (q, k, j) => (j ? '' : String(rows.span(q, k)[0])),
    rowClass: (k) => ['', 'ti-diff', ''][rows.tag[k]],
    paint: (q, k, j, host) => {
      const { lineByte, rowLine } = layout[q], line = rowLine[k] + j, end = line + 1 < rowLine[k + 1] ? lineByte[line + 1] : rows.span(q, k)[1];
      paintText(panes[q], q, lineByte[line], end, host, state.colour === 'trained');
    },
    place: (q, i) => {
      const k = rows.ofToken(q, i), { lineByte, rowLine } = layout[q], count = rowLine[k + 1] - rowLine[k];
      return [k, count ? lastAtMost(lineByte.subarray(rowLine[k], rowLine[k + 1]), panes[q].start[i], count) : 0];
    },
  };
};
const layoutText = (pane, rows, q, cols) => {
  const lineByte = [], rowLine = new Uint32Array(rows.n + 1);
  for (let k = 0; k < rows.n; k++) {
    rowLine[k] = lineByte.length;
    const [from, to] = rows.span(q, k), plainTo = pane.bytes[to - 1] === 10 ? to - 1 : to;
    if (to === from) continue;
    if (isPlain(pane.bytes, from, plainTo)) { for (let at = from; at === from || at < to; at += cols) lineByte.push(at); continue; }
    lineByte.push(from);
    let at = from, used = 0;
    for (const c of pane.text(from, to)) {
      const width = columns(show(c));
      if (used && used + width > cols) { lineByte.push(at); used = 0; }
      used += width;
      at += c.codePointAt(0) < 0x80 ? 1 : c.codePointAt(0) < 0x800 ? 2 : c.codePointAt(0) < 0x10000 ? 3 : 4;
    }
  }
  rowLine[rows.n] = lineByte.length;
  return { lineByte: Uint32Array.from(lineByte), rowLine };
};
// One span for each stretch of one segment in one token, so that a token is lit exactly; never cut inside a character.
const paintText = (pane, q, from, to, host, trained) => {
  for (let at = from, s = pane.segmentAt(from), i = Math.max(0, pane.tokenAt(from)); at < to;) {
    while (s + 1 < pane.numSegments && pane.segments.start[s + 1] <= at) s++;
    while (i + 1 < pane.n && pane.end[i] <= at) i++;
    const last = pane.n ? pane.groupEnd(i) - 1 : -1;
    let end = s + 1 < pane.numSegments ? Math.min(to, pane.segments.start[s + 1]) : to;
    if (last >= 0 && pane.end[last] > at) end = Math.min(end, pane.start[i] > at ? pane.start[i] : pane.end[last]);
    while (end < to && (pane.bytes[end] & 0xc0) === 0x80) end++;
    const origin = s < 0 ? null : pane.originOf(s), learned = trained && pane.n && pane.start[i] <= at && pane.has(i, 'assistant');
    const node = el('span', 'ti-seg ' + (trained ? trainedClass(learned) : originClass(origin)), show(pane.text(at, end)).replaceAll('\u00b7', ' '));
    node.dataset.q = q; node.dataset.b = at; node.dataset.e = end;
    if (origin) node.title = originText(origin);
    host.appendChild(node);
    at = end;
  }
};

VIEW_MODELS.rendered = {
  flow: true, gutter: 54, model: renderedModel, steps: true, colours: ['trained'],
  legend: ({ state }, item) => { if (state.colour !== 'trained') originLegend(item); },
  copies: { key: 'copy_text', text: ({ state }, q) => state.panes[q].text(0, state.panes[q].bytes.length) },
};
