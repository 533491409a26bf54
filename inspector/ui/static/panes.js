// Part of Bench: how many panes there are and in which order. The first one, A, is the baseline of all comparisons.

const FEWEST_PANES = 2, MOST_PANES = 6;

class Panes {
  // Put the panes in another order: `order` names old panes by number; one that is named again is a copy of it.
  arrange(order) {
    this.rearrange(order);
    this.changed();
    this.compareSoon();  // other pairs than before, though no answer is awaited
    this.panesOpened();
  }
  panesOpened() { if (VIEW_MODELS[this.view].opened) VIEW_MODELS[this.view].opened(this); }
  // The same, without asking: with these inputs, or with those the panes have.
  rearrange(order, inputs = order.map((q) => this.paneInputs(q))) {
    const { own } = this.state, seen = new Set();
    this.slots = order.map((q) => {
      const { answered, shownOf, failed, errors } = this.slots[q], copy = seen.has(q);
      seen.add(q);
      return copy ? Object.assign(new Slot(), { answered, shownOf, failed, errors }) : this.slots[q];
    });
    for (const slot of this.slots) slot.reason = null;
    this.buildHeads(order.length);
    inputs.forEach((values, q) => this.putPane(q, values));
    const panes = order.map((q) => own.panes[q]);
    Object.assign(this.state, { own: { panes, rows: new Rows(panes, this.unsettled()) }, stale: panes.map(() => true), logits: null, control: null, records: panes.map(() => ''), shift: panes.map(() => 0), faced: panes.map(() => null), safeOn: false, safe: null });
    for (let q = 0; q < MOST_PANES; q++) this.root.classList.remove('stale' + q);
    this.clear(); this.point(null);
    this.showAnswers(false);
    this.drawTools();
  }
  setPaneCount(count) {
    const order = [...this.heads.keys()].slice(0, count);
    while (order.length < count) order.push(this.heads.length - 1);
    if (count !== this.heads.length) this.rearrange(order);
  }
  // Put these inputs in the place of the panes' own; a pane that is there already keeps its answer, wherever it stands.
  putPanes(list) {
    const wanted = list.map((values) => JSON.stringify(values)), now = this.paneList().map((values) => JSON.stringify(values)), free = new Set(now.keys());
    const take = (q) => { if (q === undefined) return this.heads.length - 1; free.delete(q); return q; };
    const same = wanted.map((text) => { const q = [...free].find((each) => now[each] === text); return q === undefined ? -1 : take(q); });
    const order = same.map((q, k) => (q >= 0 ? q : take(free.has(k) ? k : [...free][0])));
    if (order.length !== now.length || order.some((q, k) => q !== k)) this.rearrange(order, list);
    else list.forEach((values, q) => { if (wanted[q] !== now[q]) this.putPane(q, values); });
  }
  paneList() { return this.heads.map((_, q) => this.paneInputs(q)); }
  duplicatePane(q) {
    if (this.heads.length >= MOST_PANES) { this.tell(t('panes_most', { n: MOST_PANES })); return; }
    this.arrange([...this.heads.keys()].toSpliced(q + 1, 0, q));
    this.focusPane(q + 1, t('pane_added', { pane: letter(q + 1) }));
  }
  removePane(q) {
    if (this.heads.length <= FEWEST_PANES) return;
    this.arrange([...this.heads.keys()].toSpliced(q, 1));
    this.focusPane(Math.min(q, this.heads.length - 1), t('pane_removed', { pane: letter(q) }));
  }
  // With the one before it; the first with the second.
  swapPane(q) {
    const order = [...this.heads.keys()], p = q ? q - 1 : 1;
    [order[p], order[q]] = [order[q], order[p]];
    this.arrange(order);
    this.focusPane(p, t('panes_swapped', { a: letter(Math.min(p, q)), b: letter(Math.max(p, q)) }));
  }
  focusPane(q, text) { this.$('.ti-head' + q + ' .ti-paneact').focus(); this.tell(text); }

  // The inputs of a pane by their names without its number.
  paneInputs(q) {
    return Object.fromEntries(Array.from(this.heads[q].node.querySelectorAll('[data-in]'), (node) => [node.dataset.in.slice(0, -String(q).length), node.value]));
  }
  putPane(q, values) {
    this.heads[q].put(this.offered(Object.fromEntries(Object.entries(values).map(([name, value]) => [name + q, value]))));
  }
  buildHeads(count) {
    const { panes } = this.config.defaults, config = { ...this.config, defaults: { ...this.config.defaults, panes: Array.from({ length: count }, (_, q) => panes[Math.min(q, panes.length - 1)]) } };
    for (const head of this.heads || []) head.node.remove();
    this.heads = Array.from({ length: count }, (_, q) => new Head(q, config, () => this.changed(), this));
    this.heads.forEach((head, q) => { attachUploads(head, q); head.template.top.lastChild.append(this.paneActs(q)); });
    this.$('.ti-heads').prepend(...this.heads.map((head) => head.node));
    this.localizeIn(this.$('.ti-heads'));
    this.root.style.setProperty('--heads', count);
    this.root.classList.toggle('ti-many', count > 3);
  }
  paneActs(q) {
    const host = el('span', 'ti-paneacts'), count = this.heads.length, name = { pane: letter(q), other: letter(q ? q - 1 : 1) };
    const add = (key, mark, act) => { const node = el('button', 'ti-paneact', mark); node.type = 'button'; node.title = t(key, name); node.setAttribute('aria-label', t(key, name)); node.dataset.act = key; node.addEventListener('click', act); host.append(node); };
    if (count < MOST_PANES) add('pane_duplicate', '+', () => this.duplicatePane(q));
    add('pane_swap', '\u21c4', () => this.swapPane(q));
    if (count > FEWEST_PANES) add('pane_remove', '\u00d7', () => this.removePane(q));
    return host;
  }
  localizePanes() { this.heads.forEach((head, q) => head.node.querySelector('.ti-paneacts').replaceWith(this.paneActs(q))); }
}
