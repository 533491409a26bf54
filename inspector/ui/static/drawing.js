// Part of Bench: the tabs and what is drawn under them.

class Drawing {
  draw(keepScroll) {
    const view = VIEW_MODELS[this.view], panel = this.$('.ti-panel'), body = this.$('.ti-grid'), split = this.splits();
    panel.hidden = !view.panel; body.hidden = Boolean(view.panel);
    this.$('.ti-second').hidden = !split;
    this.$('.ti-body').classList.toggle('ti-split', split);
    panel.classList.remove('ti-stale');
    if (view.panel) { view.panel(this.state, panel, this); return; }
    calibrate(this.$('.ti-space'));
    this.grid.set(this.modelOf(this.view, this.grid), keepScroll);
    if (split) this.second.set(this.modelOf('template', this.second), keepScroll);
  }
  modelOf(id, grid) { const view = VIEW_MODELS[id], model = view.model(this.state, grid.columnsFor({ panes: this.state.panes.length, gutterWidth: view.gutter })); return view.steps && this.folded ? this.fold(model) : model; }
  fold(model) { return foldedModel(model, this.state.rows, this.opened, () => { this.draw(true); this.$('.ti-grid').focus({ preventScroll: true }); }); }
  splits() { return this.split && Boolean(VIEW_MODELS[this.view].flow); }
  // What is drawn now: [grid, id of its view].
  spots() { return VIEW_MODELS[this.view].panel ? [] : this.splits() ? [[this.grid, this.view], [this.second, 'template']] : [[this.grid, this.view]]; }
  open(id) {
    this.view = id; this.markTabs(); this.drawTools(); this.draw(false);
    if (VIEW_MODELS[id].opened) VIEW_MODELS[id].opened(this);
    if (this.link) this.reveal();
    this.drawCard();
    this.remember(true);
  }
  tab(view) {
    const tab = el('button', 'ti-tab'); tab.type = 'button'; tab.dataset.view = view.id; tab.setAttribute('role', 'tab');
    tab.addEventListener('click', () => this.open(view.id));
    return tab;
  }
  // A tab with nothing to show in any pane is hidden, unless it is open.
  markTabs() {
    for (const tab of this.tabs) { const on = tab.dataset.view === this.view, { there } = VIEW_MODELS[tab.dataset.view]; tab.hidden = Boolean(there && !on && !there(this.state)); tab.setAttribute('aria-selected', on); tab.tabIndex = on ? 0 : -1; if (on && this.markStrip) tab.scrollIntoView({ block: 'nearest', inline: 'nearest' }); }
    if (this.markStrip) this.markStrip();
  }
  // The strip of tabs says by fading edges that there are more of them on either side.
  listenTabs() {
    const strip = this.$('.ti-tabs'), mark = () => { strip.classList.toggle('ti-moreleft', strip.scrollLeft > 4); strip.classList.toggle('ti-moreright', strip.scrollLeft + strip.clientWidth < strip.scrollWidth - 4); };
    strip.addEventListener('scroll', mark, { passive: true });
    new ResizeObserver(mark).observe(strip);
    this.markStrip = mark;
  }
  tabKey(event) {
    const tabs = this.tabs.filter((tab) => !tab.hidden), at = tabs.findIndex((tab) => tab.dataset.view === this.view), to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = tabs[(to + tabs.length) % tabs.length];
    this.open(tab.dataset.view); tab.focus();
  }
}
