// Part of Bench: puts an answer in sight - panes and rows, errors at their fields, the comparison, the safe ids, the estimate.

class Answers {
  showAnswer(answer, fresh) {
    this.answer = answer;
    if (answer.legend) { FLAG = answer.legend.flags; KINDS = answer.legend.kinds; }
    this.showErrors(answer.errors);
    if (fresh && answer.panes) {
      this.state.logitsStale = Boolean(this.state.logits);
      this.state.recordStale = true;
      this.state.controlStale = true;
      this.state.own = this.tables(answer, this.state.own.panes, this.cuts);
      if (!this.state.safeOn) this.show(this.state.own);
    }
    if (fresh && answer.legend) this.drawTools();
    const failed = (q) => !answer.panes || !answer.panes[q];
    this.stale([failed(0), failed(1)]);
    this.heads.forEach((head, q) => head.showCounts(this.state.own.panes[q]));
    this.showComparison(answer);
    this.draw(true);
    if (fresh && VIEW_MODELS[this.view].arrived) VIEW_MODELS[this.view].arrived(this);
    if (fresh && this.state.safeOn) this.askSafe();
    if (fresh) { this.askEstimate(); this.pickWanted(); }
  }
  // Panes and rows of an answer; a pane that has none keeps what it was.
  tables(answer, before, cuts) {
    const panes = answer.panes.map((data, q) => (data ? new Pane(data) : before[q]));
    answer.panes.forEach((data, q) => { if (data) cuts[q] = u32(data.cuts); });
    return { panes, rows: answer.rows ? new Rows(answer.rows, panes) : unaligned(panes, cuts) };
  }
  // Put tables in sight: the library's, or those of the safe ids.
  show({ panes, rows }) { this.state.panes = panes; this.state.rows = rows; this.keepSelection(); }
  showErrors(errors) {
    for (const node of this.root.querySelectorAll('.ti-err[id]')) { node.hidden = true; node.textContent = ''; delete node.dataset.at; }
    for (const node of this.root.querySelectorAll('[data-in][aria-invalid]')) node.removeAttribute('aria-invalid');
    const general = [];
    for (const error of errors) {
      if (!this.showFieldError(error)) general.push((error.pane === null ? '' : letter(error.pane) + ': ') + error.text);
    }
    this.writing.showPlaces();
    this.general.hidden = !general.length;
    this.general.textContent = general.join('\n');
    const input = this.$('.ti-input');
    if (errors.some((error) => error.pane === null) && this.root.classList.contains('narrow')) input.open = true;
  }
  showFieldError(error) {
    const scope = error.pane === null ? this.$('.ti-fields') : this.heads[error.pane].node;
    const box = error.place && (scope.querySelector('[data-field="' + error.place + '"]') || this.$('.ti-fields [data-field="' + error.place + '"]'));
    if (!box) return false;
    const node = box.querySelector('.ti-err'), prefix = error.pane !== null && !scope.contains(box) ? letter(error.pane) + ': ' : '';
    if (node.hidden || !node.textContent.endsWith(error.text)) node.textContent = node.textContent ? node.textContent + '\n' + prefix + error.text : prefix + error.text;
    node.hidden = false;
    if (error.at) node.dataset.at = error.at.join(' ');
    for (const input of box.querySelectorAll('[data-in]')) input.setAttribute('aria-invalid', 'true');
    return true;
  }
  showComparison(answer) {
    const c = answer.comparison, line = this.compareLine;
    line.disabled = true;
    if (!c) { line.textContent = !answer.errors.length ? '' : answer.errors.some((error) => error.pane === null) ? t('stale') : t('no_comparison'); return; }
    if (!c.first_difference) { line.textContent = c.equal.bytes && c.equal.ids ? t('equal') : t('equal_bytes'); return; }
    const d = c.first_difference;
    line.disabled = false;
    line.textContent = t(d.byte === null ? 'first_difference_ids' : 'first_difference', { byte: number(d.byte ?? 0), a: d.token_a ?? '\u2013', b: d.token_b ?? '\u2013', reason: said(d.reason) });
    line.title = t('go_to_difference');
  }
  goToDifference() {
    const d = this.answer.comparison.first_difference, q = d.token_a !== null ? 0 : 1;
    if (!VIEW_MODELS[this.view].flow) this.open('tokens');
    this.select(q, Math.min(q ? d.token_b : d.token_a, this.state.panes[q].n - 1), true);
    this.$('.ti-grid').focus();
  }
  showSafe(on) {
    this.state.safeOn = on;
    if (!VIEW_MODELS[this.view].flow) this.open('tokens');
    if (on) { this.askSafe(); this.drawTools(); return; }
    this.show(this.state.own); this.drawTools(); this.draw(true);
  }
  // Until the safe tables are there, what is shown stays what it was.
  async askSafe() {
    if (this.safeInFlight) { this.safeAgain = true; return; }
    this.safeInFlight = true;
    const text = await this.server.safe({ session: this.session, ...this.readShown() });
    this.safeInFlight = false;
    if (typeof text !== 'string') this.lost(true);
    else if (this.state.safeOn) {
      const answer = JSON.parse(text);
      if (answer.panes) { this.show(this.tables(answer, this.state.own.panes, [...this.cuts])); this.drawTools(); this.draw(true); }
    }
    if (this.safeAgain) { this.safeAgain = false; this.askSafe(); }
  }
  // The estimate follows the panes' answer; while one is awaited, a newer wish is only noted.
  async askEstimate() {
    const model = this.field('openai_model').value.trim(), line = this.$('.ti-estimate');
    if (this.estimateInFlight) { this.estimateAgain = true; return; }
    if (!model) { line.textContent = ''; return; }
    this.estimateInFlight = true;
    const busy = setTimeout(() => { line.textContent = t('estimate_busy'); }, 150);
    const text = await this.server.estimate({ session: this.session, openai_model: model, ...this.read() });
    this.estimateInFlight = false;
    clearTimeout(busy);
    if (typeof text === 'string') this.showEstimate(JSON.parse(text), line); else { line.textContent = ''; this.lost(true); }
    if (this.estimateAgain) { this.estimateAgain = false; this.askEstimate(); }
  }
  showEstimate({ count, error }, line) {
    line.textContent = count ? [t('openai_estimate', { total: number(count.total), messages: number(count.message_tokens), tools: number(count.tool_tokens), model: count.resolved_model, encoding: count.encoding }), ...count.warnings].join('\n') : '';
    if (error && error.place) this.showFieldError(error);
  }
}

// Rows when only one pane is new: paired by number, and no claim about what is equal.
const unaligned = (panes, cuts) => {
  const own = panes.map((pane, q) => (cuts[q] ? cuts[q] : new Uint32Array([0, pane.n]))), n = Math.max(...own.map((cut) => cut.length - 1), 1);
  const rows = Object.create(Rows.prototype);
  rows.n = n; rows.panes = panes; rows.tag = new Uint8Array(n);
  rows.token = own.map((cut, q) => Uint32Array.from({ length: n + 1 }, (_, k) => (k < cut.length ? cut[k] : panes[q].n)));
  rows.linked = () => null; rows.unaligned = true;
  return rows;
};
