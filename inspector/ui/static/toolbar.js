// Part of Bench: the bar above a view. What only one view offers is in its own file; the hooks are in views.js.

class Toolbar {
  drawTools() {
    const host = this.$('.ti-tools'), view = VIEW_MODELS[this.view];
    host.replaceChildren();
    this.toolsFor = this.toolsKey();
    const button = (key, act) => { const node = el('button', 'ti-btn', t(key)); node.type = 'button'; node.addEventListener('click', act); host.append(node); return node; };
    if (view.flow && this.state.safeOn) host.append(el('b', 'ti-hot ti-safenote', t('safe_shown')));
    if (view.switches) view.switches(this, host);
    if (view.colours) host.append(this.choice('colour', view.colours.map((name) => [name, t('colour_' + name)]), this.state.colour, (name) => { this.state.colour = name; this.drawTools(); this.draw(true); this.$('.ti-choice select').focus(); }));
    if (view.flow) {
      host.append(this.check('safe_toggle', this.state.safeOn, (on) => this.showSafe(on)));
      host.append(this.check('split_toggle', this.split, (on) => { this.split = on; this.draw(true); if (this.link) this.reveal(); }));
    }
    if (view.steps) host.append(this.check('only_differences', this.folded, (on) => { this.folded = on; this.opened.clear(); this.draw(true); if (this.link) this.reveal(); this.remember(true); }));
    if (view.steps) { button('previous_difference', () => this.difference(-1)); button('next_difference', () => this.difference(1)); }
    if (view.copies) this.eachPane(button, view.copies.key, (q) => this.copy(view.copies.text(this, q)));
    if (view.tools) view.tools(this, host, button);
    const menu = exportMenu(this);
    if (menu) host.append(menu);
    host.append(this.copied(), this.legend());
  }
  // What the bar depends on besides what a person does in it.
  toolsKey() { return [KINDS, this.state.panes.length, ...this.state.panes.map((pane) => pane.assistant_from)].join(); }
  // One button a pane.
  // Of many panes the menu has them.
  eachPane(button, key, act) { if (this.state.panes.length > 3) return; this.state.panes.forEach((_, q) => button(key, () => act(q)).prepend(letter(q) + ' ')); }
  choice(key, entries, value, act) {
    const label = el('label', 'ti-checkbox ti-choice'), select = el('select');
    for (const [name, text] of entries) { const option = el('option', '', text); option.value = name; select.append(option); }
    select.value = entries.some(([name]) => name === value) ? value : entries[0][0];
    select.addEventListener('change', () => act(select.value));
    label.append(t(key) + ' ', select);
    return label;
  }
  check(key, on, act) {
    const label = el('label', 'ti-checkbox'), box = el('input'); box.type = 'checkbox'; box.checked = on;
    box.addEventListener('change', () => act(box.checked));
    label.append(box, ' ' + t(key));
    return label;
  }
  legend() {
    const node = el('span', 'ti-legend'), item = (cls, text) => node.append(el('span', cls, text)), view = VIEW_MODELS[this.view];
    if (view.colours && this.state.colour === 'trained') { item('ti-seg ti-learned', t('trained')); item('ti-seg ti-unlearned', t('not_trained')); item('ti-dim', this.state.panes.map((pane, q) => letter(q) + ': ' + t('mask_from_' + (pane.assistant_from || 'none'))).join(' \u00b7 ')); }
    if (view.legend) view.legend(this, item, node);
    if (view.steps) { item('ti-rowkey ti-rowkey-a', t('legend_text_a')); item('ti-rowkey ti-rowkey-b', t('legend_text_b')); if (this.view === 'tokens') item('ti-rowkey ti-rowkey-id', t('legend_ids')); item('ti-dim', t('legend_same')); }
    return node;
  }
  async copy(text) {
    try { await navigator.clipboard.writeText(text); this.tellCopied('copied'); } catch (error) { this.tellCopied('copy_failed'); }
  }
  copied() { const node = el('span', 'ti-copied'); node.setAttribute('role', 'status'); return node; }
  tellCopied(key) {
    const said = this.$('.ti-copied');
    said.textContent = t(key);
    setTimeout(() => { said.textContent = ''; }, 2500);
  }
}
