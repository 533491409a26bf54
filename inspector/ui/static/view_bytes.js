// Hex dump: offset, bytes, text. A span is a token's bytes within one line, in the token's tone; the text column follows it.
// Lines stand side by side by offset, or moved so that the first bytes of a link face each other: state.faced[q] is such a byte.

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
  const lineOf = (byte) => Math.floor(byte / width), most = Math.max(0, ...state.faced.map((byte) => (byte === null ? 0 : lineOf(byte))));
  const shift = panes.map((_, q) => (state.faced[q] === null || state.faced[q] === undefined ? 0 : most - lineOf(state.faced[q]))), byteAt = (q, k) => (k - shift[q]) * width;
  const span = (q, part, text) => {
    const node = el('span', 'ti-byte' + part.cls, text);
    node.dataset.q = q; node.dataset.b = part.from; node.dataset.e = part.to;
    return node;
  };
  return {
    panes: panes.length, rows: Math.max(1, ...panes.map((pane, q) => shift[q] + Math.ceil(pane.bytes.length / width))), gutterWidth: 62,
    lines: (q, k) => (byteAt(q, k) >= 0 && byteAt(q, k) < panes[q].bytes.length ? 1 : 0),
    gutter: (q, k) => byteAt(q, k).toString(16).padStart(6, '0'),
    paint: (q, k, j, host) => {
      const pane = panes[q], from = byteAt(q, k), to = Math.min(pane.bytes.length, from + width), text = el('span', 'ti-ascii');
      for (const part of stretches(pane, from, to)) {
        const bytes = Array.from(pane.bytes.subarray(part.from, part.to));
        host.appendChild(span(q, part, bytes.map(hexOf).join('')));
        text.appendChild(span(q, part, bytes.map(printable).join('')));
      }
      if (to - from < width) { const fill = el('span', 'ti-fill'); fill.style.width = (width - (to - from)) * 2.5 + 'ch'; host.appendChild(fill); }
      host.appendChild(text);
    },
    place: (q, i) => [shift[q] + lineOf(panes[q].start[i]), 0],
  };
};

VIEW_MODELS.bytes = { flow: true, gutter: 62, model: bytesModel, copies: { key: 'copy_hex', text: (bench, q) => hex(bench.state.panes[q].bytes) } };
