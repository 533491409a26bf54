// Rendered text by origin: the same rows, cut at characters and at segment borders.

const renderedModel = (state, cols) => {
  const { panes, rows } = state, flow = flowModel(state, panes.map((pane) => layoutText(pane, cols)));
  return {
    ...flow,
    rowClass: (k) => ['', 'ti-diff', ''][rows.tag[k]],
    cellClass: (q, k) => ['', 'ti-differs', ''][rows.tags[q][k]],
    gutter: (q, k, j) => (j ? '' : String(rows.span(q, k)[0])),
    paint: (q, k, j, host) => {
      const [from, end] = flow.extent(q, k, j, rows.span(q, k)[1]);
      paintText(panes[q], q, from, end, host, state.colour === 'trained');
    },
    place: (q, i) => flow.lineOf(q, rows.ofToken(q, i), panes[q].start[i]),
  };
};
const layoutText = (pane, cols) => linesIn(pane, 'text' + cols + measure.font, (each, r) => edgesOf(each)[r], (_, r, starts) => {
  const edges = edgesOf(pane), from = edges[r], to = edges[r + 1], plainTo = pane.bytes[to - 1] === 10 ? to - 1 : to;
  if (to === from) return;
  if (isPlain(pane.bytes, from, plainTo)) { for (let at = from; at === from || at < to; at += cols) starts.push(at); return; }
  starts.push(from);
  let at = from, used = 0;
  for (const c of pane.text(from, to)) {
    const width = columns(show(c));
    if (used && used + width > cols) { starts.push(at); used = 0; }
    used += width;
    at += c.codePointAt(0) < 0x80 ? 1 : c.codePointAt(0) < 0x800 ? 2 : c.codePointAt(0) < 0x10000 ? 3 : 4;
  }
});
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
  flow: true, gutter: 54, model: renderedModel, steps: true, colours: ['origin', 'trained'],
  legend: ({ state }, item) => { if (state.colour !== 'trained') originLegend(item); },
  copies: { key: 'copy_text', text: ({ state }, q) => state.panes[q].text(0, state.panes[q].bytes.length) },
};
