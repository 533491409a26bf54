// One of the four editors of JSON text, which a form may show instead (form.js): a mirror behind the textarea shows which of its text is linked, and the caret is read
// as a place in the request. The mirror holds the text once; what is lit are highlight ranges, so that lighting costs no
// layout. Very long texts are not mirrored: laying them out a second time would cost more than it tells.

const MOST_MIRRORED = 150000, MOST_MARKS = 2000;
const LIT = ['ti-on', 'ti-hv'];
const highlights = window.CSS && CSS.highlights && window.Highlight ? Object.fromEntries(LIT.map((name) => [name, new Highlight()])) : null;
if (highlights) for (const name of LIT) CSS.highlights.set(name, highlights[name]);

class Editor {
  constructor(name, area) {
    this.name = name; this.area = area; this.ranges = []; this.form = null;
    const wrap = (this.wrap = el('div', 'ti-edit'));
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
  // Is the form shown instead of the text?
  asForm() { return Boolean(this.form && !this.form.node.hidden); }
  active() { return document.activeElement === this.area || (this.asForm() && this.form.node.contains(document.activeElement)); }
  // The caret or selection as positions in the text; null where the form has none.
  caret() { return this.asForm() ? this.form.caret() : [this.area.selectionStart, this.area.selectionEnd]; }
  fieldsAtCaret() {
    const scan = this.scan(), caret = scan && this.caret();
    return caret ? fieldsAt(scan, ...caret) : [];
  }
  place(field) { const scan = this.scan(); return scan && placeOf(scan, field); }
  places(fields) {
    const found = [];
    for (const field of fields.slice(0, MOST_MARKS)) { const place = this.place(field); if (place) found.push(place); }
    return merged(found);
  }

  // layers: {class: fields}. Gives whether anything is lit.
  light(layers) {
    const text = this.area.value;
    this.forget();
    if (this.asForm()) return this.form.light(layers);
    if (!highlights || text.length > MOST_MIRRORED) return false;
    for (const [name, fields] of Object.entries(layers)) this.put(name, this.places(fields));
    return this.ranges.length > 0;
  }
  put(name, places) {
    if (!places.length || !highlights) return;
    if (this.mirrored !== this.area.value || !this.mirror.firstChild) { this.mirrored = this.area.value; this.mirror.textContent = this.mirrored + '\u200b'; this.follow(); }
    for (const [from, to] of places) {
      const range = new Range();
      range.setStart(this.mirror.firstChild, from); range.setEnd(this.mirror.firstChild, to);
      highlights[name].add(range);
      this.ranges.push([name, range]);
    }
  }
  forget() { for (const [name, range] of this.ranges) highlights[name].delete(range); this.ranges = []; }
  follow() {
    if (!this.mirror.firstChild) return;
    this.mirror.style.width = this.area.clientWidth + 2 + 'px';
    this.mirror.style.height = this.area.offsetHeight + 'px';
    this.mirror.scrollTop = this.area.scrollTop;
  }
  // Scroll the first lit text into sight.
  reveal() {
    if (this.asForm()) { this.form.reveal(); return; }
    const { area, mirror } = this, first = this.ranges.find(([name]) => name === 'ti-on');
    if (!first) return;
    const top = first[1].getBoundingClientRect().top - mirror.getBoundingClientRect().top + mirror.scrollTop;
    if (top < area.scrollTop + 4 || top + 22 > area.scrollTop + area.clientHeight) area.scrollTop = Math.max(0, top - area.clientHeight / 3);
    this.follow();
  }
  // Put the caret's selection on a place; the browser scrolls there when the caret is set before the range is.
  go([from, to]) {
    if (this.asForm()) { this.form.focusAt(from, to); return; }
    const { area } = this;
    area.blur();
    area.setSelectionRange(from, from);
    area.focus();
    area.setSelectionRange(from, to);
    this.reveal();
  }
}
