// One undo history for the page: of the four editors' texts what each step took out and put in, in text positions, with the
// carets; of the panes and of the form's other fields (WHOLE, each one JSON text) what they were and became. Typing that goes
// on is one step. Whoever changes something (a key, the form, an example, a button), the difference is noted here.

const HISTORY_UNITS = 8e6, TYPING_PAUSE_MS = 900, TYPING_MOST = 60, WHOLE = ['panes', 'form'];

class UndoHistory {
  constructor(texts, about = null) { this.known = { ...texts }; this.about = about; this.undone = []; this.done = []; this.units = 0; }

  // Note what differs from what was known: the names of that. `typing`: a step that may go on; `caret`: where it was before;
  // `about`: what goes along with the state, and is no step by itself.
  note(texts, typing, caret, about = null) {
    const parts = [];
    for (const [name, after] of Object.entries(texts)) {
      const before = this.known[name];
      if (before === after) continue;
      const [head, tail] = WHOLE.includes(name) ? [0, 0] : agreeing(before, after);
      parts.push({ name, at: head, removed: before.slice(head, before.length - tail), inserted: after.slice(head, after.length - tail) });
      this.known[name] = after;
    }
    const from = this.about;
    this.about = about;
    if (!parts.length) return [];
    for (const { units } of this.undone) this.units -= units;
    this.undone = [];
    if (!(typing && parts.length === 1 && this.goesOn(parts[0]))) this.push({ parts, typing, caret, about: [from, about], at: performance.now(), units: 0 });
    this.trim();
    return parts.map(({ name }) => name);
  }
  // What an undone step left on the page is what is known, however the page spells it.
  settle(texts) { for (const name of WHOLE) this.known[name] = texts[name]; }
  push(step) {
    step.units = step.parts.reduce((sum, part) => sum + part.removed.length + part.inserted.length, 0);
    this.units += step.units;
    this.done.push(step);
  }
  // Does this part go on where the last step stopped?
  goesOn(part) {
    const step = this.done[this.done.length - 1], now = performance.now();
    if (!step || !step.typing || now - step.at > TYPING_PAUSE_MS || step.parts[0].name !== part.name) return false;
    const [last] = step.parts, more = part.removed.length + part.inserted.length;
    if (WHOLE.includes(part.name)) { last.inserted = part.inserted; step.at = now; return true; }
    if (last.inserted.length + last.removed.length + more > TYPING_MOST) return false;
    if (!part.removed && part.at === last.at + last.inserted.length) last.inserted += part.inserted;
    else if (!part.inserted && !last.inserted && part.at + part.removed.length === last.at) { last.at = part.at; last.removed = part.removed + last.removed; }
    else if (!part.inserted && part.at >= last.at && part.at + part.removed.length === last.at + last.inserted.length) last.inserted = last.inserted.slice(0, part.at - last.at);
    else return false;
    step.at = now; step.units += more; this.units += more;
    return true;
  }
  trim() { while (this.units > HISTORY_UNITS && this.done.length > 1) this.units -= this.done.shift().units; }
  // Go one step: the texts as they then are, and the place that it changed; null at an end.
  step(back) {
    const step = (back ? this.done : this.undone).pop();
    if (!step) return null;
    (back ? this.undone : this.done).push(step);
    const changed = {}, last = this.done[this.done.length - 1];
    if (last) last.typing = false;
    for (const { name, at, removed, inserted } of step.parts) {
      const [out, put] = back ? [inserted, removed] : [removed, inserted], text = this.known[name];
      changed[name] = this.known[name] = text.slice(0, at) + put + text.slice(at + out.length);
    }
    const first = step.parts.find(({ name }) => !WHOLE.includes(name)), end = first ? first.at + (back ? first.removed : first.inserted).length : 0;
    this.about = step.about[back ? 0 : 1];
    return { changed, about: this.about, caret: back && step.caret && step.caret.name in changed ? step.caret : first ? { name: first.name, from: end, to: end } : null };
  }
}
