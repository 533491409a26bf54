// Hex dump: offset, bytes, text. Bytes keep the two tones of their tokens.

const bytesModel = (state, cols) => {
  const { panes } = state, width = cols >= 16 * 3.5 + 1 ? 16 : cols >= 8 * 3.5 + 1 ? 8 : 4;
  return {
    panes: panes.length, rows: Math.max(1, ...panes.map((pane) => Math.ceil(pane.bytes.length / width))), gutterWidth: 62,
    lines: (q, k) => (k * width < panes[q].bytes.length ? 1 : 0),
    gutter: (q, k) => (k * width).toString(16).padStart(6, '0'),
    paint: (q, k, j, host) => {
      const pane = panes[q], from = k * width, to = Math.min(pane.bytes.length, from + width), text = el('span', 'ti-ascii');
      for (let at = from, i = pane.tokenAt(from); at < to; at++) {
        while (i + 1 < pane.n && pane.start[i + 1] <= at) i++;
        const b = pane.bytes[at], inside = i >= 0 && at >= pane.start[i] && at < pane.end[i], cls = inside ? ' k' + (i & 1) + (pane.has(i, 'special') ? ' f-special' : '') : ' ti-bare';
        for (const [parent, show_] of [[host, b.toString(16).padStart(2, '0')], [text, b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '\u00b7']]) {
          const node = el('span', 'ti-byte' + cls, show_);
          node.dataset.q = q; node.dataset.b = at; node.dataset.e = at + 1;
          parent.appendChild(node);
        }
      }
      if (to - from < width) { const fill = el('span', 'ti-fill'); fill.style.width = (width - (to - from)) * 2.5 + 'ch'; host.appendChild(fill); }
      host.appendChild(text);
    },
    place: (q, i) => [Math.floor(panes[q].start[i] / width), 0],
  };
};

VIEW_MODELS.bytes = { flow: true, gutter: 62, model: bytesModel };
