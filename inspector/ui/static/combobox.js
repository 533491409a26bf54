// A list to choose from that can be searched: a text input over a select, which stays what holds the choice. Typing shows what
// has all the words; arrows, Enter and the mouse choose; Escape, or going elsewhere, leaves the choice as it was.

const MOST_LISTED = 300;
const SELECT_VALUE = Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value');

class Combobox {
  constructor(select, root) {
    Object.assign(this, { select, root, list: null, at: -1, shown: [] });
    const box = (this.node = el('div', 'ti-combo')), input = (this.input = el('input'));
    input.type = 'text'; input.autocomplete = 'off'; input.spellcheck = false; input.dataset.combo = select.dataset.in; input.dataset.undo = 'page';
    input.id = select.id + '-text';
    for (const [name, value] of [['role', 'combobox'], ['aria-autocomplete', 'list'], ['aria-expanded', 'false'], ['aria-haspopup', 'listbox']]) input.setAttribute(name, value);
    input.setAttribute('aria-describedby', select.getAttribute('aria-describedby'));
    select.tabIndex = -1; select.setAttribute('aria-hidden', 'true');
    const mark = el('span', 'ti-combomark', '\u25be'); mark.setAttribute('aria-hidden', 'true');
    box.append(select, input, mark);
    // Whoever sets the choice, the text follows.
    Object.defineProperty(select, 'value', { configurable: true, get: () => SELECT_VALUE.get.call(select), set: (value) => { SELECT_VALUE.set.call(select, value); this.sync(); } });
    select.addEventListener('change', () => this.sync());
    input.addEventListener('focus', () => input.select());
    input.addEventListener('click', () => this.open(''));
    input.addEventListener('input', (event) => { event.stopPropagation(); this.open(input.value); });
    input.addEventListener('blur', () => this.close());
    input.addEventListener('keydown', (event) => this.key(event));
    this.sync();
  }
  sync() { if (!this.list) { const { selectedIndex: k, options } = this.select; this.input.value = k < 0 ? '' : options[k].textContent; this.input.title = this.input.value; } }
  name(text) { this.input.setAttribute('aria-label', text); this.sync(); }
  open(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = Array.from(this.select.options).filter((option) => words.every((word) => option.textContent.toLowerCase().includes(word))).slice(0, MOST_LISTED);
    if (!this.list) {
      this.list = el('div', 'ti-combolist'); this.list.id = this.input.id + '-list'; this.list.setAttribute('role', 'listbox'); this.list.setAttribute('aria-label', this.input.getAttribute('aria-label'));
      this.list.addEventListener('pointerdown', (event) => event.preventDefault());
      this.list.addEventListener('click', (event) => { const node = event.target.closest('[role=option]'); if (node) this.choose(+node.dataset.k); });
      this.root.append(this.list);
      this.input.setAttribute('aria-controls', this.list.id); this.input.setAttribute('aria-expanded', 'true');
    }
    this.list.replaceChildren(...this.shown.map((option, k) => { const node = el('div', 'ti-comboitem', option.textContent); node.id = this.list.id + k; node.dataset.k = k; node.setAttribute('role', 'option'); return node; }));
    if (!this.shown.length) { const none = el('div', 'ti-dim ti-comboitem', t('combo_none')); none.setAttribute('role', 'option'); none.setAttribute('aria-disabled', 'true'); none.dataset.k = -1; this.list.append(none); }
    this.place();
    this.mark(text ? 0 : this.shown.findIndex((option) => option.selected));
  }
  place() {
    const { left, right, top, bottom } = this.input.getBoundingClientRect(), wide = Math.min(Math.max(right - left, 240), innerWidth - 16), below = innerHeight - bottom, { style } = this.list;
    style.minWidth = wide + 'px'; style.left = Math.max(8, Math.min(left, innerWidth - wide - 8)) + 'px';
    style.maxHeight = Math.max(120, Math.min(360, Math.max(below, top) - 12)) + 'px';
    if (below >= 200 || below >= top) { style.top = bottom + 2 + 'px'; style.bottom = ''; } else { style.bottom = innerHeight - top + 2 + 'px'; style.top = ''; }
  }
  mark(k) {
    this.at = k;
    Array.from(this.list.children).forEach((node, n) => { node.setAttribute('aria-selected', n === k); if (n === k) node.scrollIntoView({ block: 'nearest' }); });
    if (k >= 0 && this.shown.length) this.input.setAttribute('aria-activedescendant', this.list.id + k); else this.input.removeAttribute('aria-activedescendant');
  }
  choose(k) {
    const option = this.shown[k];
    if (!option) return;
    this.close();
    if (option.selected) return;
    this.select.value = option.value;
    this.select.dispatchEvent(new Event('change', { bubbles: true }));
    this.input.select();
  }
  close() {
    if (this.list) { this.list.remove(); this.list = null; }
    this.input.setAttribute('aria-expanded', 'false'); this.input.removeAttribute('aria-activedescendant'); this.input.removeAttribute('aria-controls');
    this.sync();
  }
  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key], last = this.shown.length - 1;
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    if (step && !this.list) { this.open(''); event.preventDefault(); return; }
    if (step) { this.mark(Math.max(0, Math.min(last, this.at + step))); event.preventDefault(); return; }
    if (event.key === 'Enter') { event.preventDefault(); if (this.list) this.choose(this.at); else this.open(''); }
    if (event.key === 'Escape' && this.list) { event.preventDefault(); event.stopPropagation(); this.close(); this.input.select(); }
  }
}
