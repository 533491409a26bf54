// One of the four JSON editors: a mirror behind the textarea shows which of its text is linked, and the caret is read
// as a place in the request. Long texts are not mirrored on every hover: their layout would cost more than it tells.

const MOST_HOVERED = 60000, MOST_MIRRORED = 400000, MOST_MARKS = 2000;

class Editor {
  constructor(name, area) {
    this.name = name; this.area = area;
    const wrap = el('div', 'ti-edit');
    this.mirror = el('div', 'ti-mirror');
    this.mirror.setAttribute('aria-hidden', 'true');
    area.replaceWith(wrap);
    wrap.append(this.mirror, area);
    area.addEventListener('scroll', () => this.follow(), { passive: true });
    new ResizeObserver(() => this.follow()).observe(area);
  }

  // The scanned text; null when it is not JSON.
  scan() {
    const text = this.area.value;
    if (!this.scanned || this.scannedText !== text) { this.scannedText = text; this.scanned = text.trim() ? scanJson(text, editorRoot(this.name, text)) : null; }
    return this.scanned;
  }
  fieldsAtCaret() {
    const scan = this.scan();
    return scan ? fieldsAt(scan, this.area.selectionStart, this.area.selectionEnd) : [];
  }
  place(field) { const scan = this.scan(); return scan && placeOf(scan, field); }
  places(fields) {
    const found = [];
    for (const field of fields.slice(0, MOST_MARKS)) { const place = this.place(field); if (place) found.push(place); }
    return merged(found);
  }

  // layers: [[fields, class]], the first wins where they overlap.
  light(layers, hovering) {
    const text = this.area.value, marks = [];
    if (text.length <= (hovering ? MOST_HOVERED : MOST_MIRRORED))
      for (const [fields, cls] of layers) for (const [a, b] of this.places(fields)) if (!marks.some(([x, y]) => a < y && b > x)) marks.push([a, b, cls]);
    marks.sort((x, y) => x[0] - y[0]);
    this.first = marks.find((mark) => mark[2] === 'ti-on') || marks[0] || null;
    this.mirror.replaceChildren();
    let at = 0;
    for (const [a, b, cls] of marks) { this.mirror.append(text.slice(at, a), el('mark', cls, text.slice(a, b))); at = b; }
    if (marks.length) { this.mirror.append(text.slice(at), '\u200b'); this.follow(); }
    return marks.length > 0;
  }
  follow() {
    if (!this.mirror.firstChild) return;
    this.mirror.style.width = this.area.clientWidth + 2 + 'px';
    this.mirror.style.height = this.area.offsetHeight + 'px';
    this.mirror.scrollTop = this.area.scrollTop;
  }
  // Scroll the first lit text into sight.
  reveal() {
    const mark = this.mirror.querySelector('mark'), { area } = this;
    if (!mark) return;
    const top = mark.offsetTop;
    if (top < area.scrollTop + 4 || top + 22 > area.scrollTop + area.clientHeight) area.scrollTop = Math.max(0, top - area.clientHeight / 3);
    this.follow();
  }
  // Put the caret's selection on a place and scroll to it.
  go([from, to]) {
    this.area.focus();
    this.area.setSelectionRange(from, to);
    this.mirror.replaceChildren(this.area.value.slice(0, from), el('mark', 'ti-on', this.area.value.slice(from, to)), this.area.value.slice(to), '\u200b');
    this.follow(); this.reveal();
  }
}
