// Hex dump: offset, bytes, text. A span is a token's bytes within one line, in the token's tone; the text column follows it.

const printable = (b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '\u00b7');
const hexOf = (b) => b.toString(16).padStart(2, '0') + ' ';

// The stretches of [from, to) that belong to one token each, or to none.
const stretches = (pane, from, to) => {
  const found = [];
  for (let at = from, i = pane.tokenAt(from); at < to;) {
    while (i + 1 < pane.n && pane.start[i + 1] <= at) i++;
    const inside = i >= 0 && at >= pane.start[i] && at < pane.end[i];
    const next = inside ? pane.end[i] : i + 1 < pane.n && pane.start[i + 1] > at ? pane.start[i + 1] : to;
    const end = Math.min(to, Math.max(at + 1, next));
    found.push({ from: at, to: end, cls: inside ? ' k' + (i & 1) + (pane.has(i, 'special') ? ' f-special' : '') : ' ti-bare' });
    at = end;
  }
  return found;
};

const bytesModel = (state, cols) => {
  const { panes } = state, width = cols >= 16 * 3.5 + 1 ? 16 : cols >= 8 * 3.5 + 1 ? 8 : 4;
  const span = (q, part, text) => {
    const node = el('span', 'ti-byte' + part.cls, text);
    node.dataset.q = q; node.dataset.b = part.from; node.dataset.e = part.to;
    return node;
  };
  return {
    panes: panes.length, rows: Math.max(1, ...panes.map((pane) => Math.ceil(pane.bytes.length / width))), gutterWidth: 62,
    lines: (q, k) => (k * width < panes[q].bytes.length ? 1 : 0),
    gutter: (q, k) => (k * width).toString(16).padStart(6, '0'),
    paint: (q, k, j, host) => {
      const pane = panes[q], from = k * width, to = Math.min(pane.bytes.length, from + width), text = el('span', 'ti-ascii');
      for (const part of stretches(pane, from, to)) {
        const bytes = Array.from(pane.bytes.subarray(part.from, part.to));
        host.appendChild(span(q, part, bytes.map(hexOf).join('')));
        text.appendChild(span(q, part, bytes.map(printable).join('')));
      }
      if (to - from < width) { const fill = el('span', 'ti-fill'); fill.style.width = (width - (to - from)) * 2.5 + 'ch'; host.appendChild(fill); }
      host.appendChild(text);
    },
    place: (q, i) => [Math.floor(panes[q].start[i] / width), 0],
  };
};

VIEW_MODELS.bytes = { flow: true, gutter: 62, model: bytesModel, copies: { key: 'copy_hex', text: (bench, q) => hex(bench.state.panes[q].bytes) } };
