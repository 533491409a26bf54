// Part of Bench: puts answers in sight - panes and rows, errors at their fields, comparisons, the safe ids, the estimate.

// The server compares two sides, A and B; the second one has another name where there are more panes. What is quoted stays.
const sideNamed = (text, q) => (q === 1 ? text : text.split(/('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")/).map((part, k) => (k % 2 ? part : part.replace(/(?<![\w#.])B(?!\w)/g, letter(q)))).join(''));

// An error of what all panes share - the editors, the clock, the window - is of no pane, whichever of them said it.
const SHARED = ['messages', 'tools', 'documents', 'clock', 'context_window', 'max_new_tokens', 'policy'];
const sharedField = ({ place, stage }, { options }) => (place === 'arguments' ? stage === 'request' && !options.own.value.trim() : stage === 'messages' ? SHARED.includes(place) && !options.profile.value : SHARED.includes(place) && ['request', 'options'].includes(stage));

const placeIn = (name, token) => (token === null || token === undefined ? t('nothing_there', { pane: name }) : name + ' #' + token);

class Answers {
  // Show what the panes have. `fresh`: some of it is new, and what follows from it is asked for.
  showAnswers(fresh) {
    const { own } = this.state, news = fresh ? this.slots.filter((slot) => slot.news) : this.slots;
    for (const slot of news) slot.news = false;
    if (fresh) Object.assign(this.state, { logitsStale: Boolean(this.state.logits), recordStale: true, controlStale: true });
    this.showErrors(this.errorsNow());
    this.showAge();
    this.state.own = { panes: own.panes, rows: new Rows(own.panes, this.unsettled(), this.slots.map((slot) => slot.failed)) };
    if (!this.state.safeOn) this.show(this.state.own);
    for (const slot of news) { const q = this.slots.indexOf(slot); if (!this.headsSafe) this.heads[q].showCounts(own.panes[q]); else if (!fresh) this.heads[q].showCounts(this.state.panes[q], true); }
    this.showComparisons();
    this.draw(true);
    this.markTabs(); showFewFields(this);
    for (const pane of this.state.own.panes) pane.before = null;
    if (!fresh) return;
    if (this.toolsFor !== this.toolsKey()) this.drawTools();
    if (this.inFlight || this.dirty) return;
    const view = VIEW_MODELS[this.view];
    if (view.arrived && (view.ofFailed || news.some((slot) => !slot.failed))) view.arrived(this);
    if (this.state.safeOn) this.askSafe();
    this.askEstimate(); this.pickWanted();
    this.compareSoon();
  }
  // Panes whose answer is not of the present input, or has not come: nothing is claimed about what is equal in them.
  unsettled() { return this.slots.map((slot) => slot.failed || slot.inFlight || slot.dirty || !slot.answered); }
  // Put tables in sight: the library's, or those of the safe ids.
  show({ panes, rows }) {
    const safe = panes !== this.state.own.panes;
    Object.assign(this.state, { panes, rows });
    if (safe || this.headsSafe) this.heads.forEach((head, q) => head.showCounts(panes[q], safe));  // a head describes what is in sight
    this.headsSafe = safe;
    this.keepSelection();
  }
  // The errors of all panes; one of a shared field that every pane has is of none.
  errorsNow() {
    const all = this.slots.flatMap((slot, q) => slot.errors.map((error) => ({ ...error, pane: q }))), of = this.slots.filter((slot) => slot.answered && !slot.inFlight).length, found = [];
    for (const error of all) {
      if (sharedField(error, this.heads[error.pane])) { if (!found.some((other) => other.pane === null && other.text === error.text && other.place === error.place)) found.push({ ...error, pane: null }); continue; }
      const same = all.filter((other) => other.text === error.text && other.place === error.place).length;
      const one = !['tokenizer', 'template'].includes(error.place) && same >= of ? { ...error, pane: null } : error;
      if (!found.some((other) => other.pane === one.pane && other.text === one.text && other.place === one.place)) found.push(one);
    }
    return found;
  }
  showErrors(errors) {
    for (const node of this.root.querySelectorAll('.ti-err[id]')) { node.hidden = true; node.textContent = ''; delete node.dataset.at; }
    for (const node of this.root.querySelectorAll(':is([data-in], [data-combo])[aria-invalid]')) node.removeAttribute('aria-invalid');
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
    if (error.pane !== null && box.closest('.ti-paneopts[hidden]')) this.heads[error.pane].disclose('options', true);
    const node = box.querySelector('.ti-err'), prefix = error.pane !== null && !scope.contains(box) ? letter(error.pane) + ': ' : '';
    if (node.hidden || !node.textContent.endsWith(error.text)) node.textContent = node.textContent ? node.textContent + '\n' + prefix + error.text : prefix + error.text;
    node.hidden = false;
    if (error.at) node.dataset.at = error.at.join(' ');
    for (const input of box.querySelectorAll('[data-in], [data-combo]')) input.setAttribute('aria-invalid', 'true');
    return true;
  }
  // One line for each pane but the first: where it parts from the first one, and why as soon as the server has said it.
  showComparisons() {
    const { panes } = this.state.own, unsettled = this.unsettled(), errors = this.errorsNow(), many = panes.length > 2;
    while (this.compareLines.length > panes.length - 1) this.compareLines.pop().remove();
    while (this.compareLines.length < panes.length - 1) {
      const line = el('button', 'ti-compare'), q = this.compareLines.length + 1; line.type = 'button';
      line.addEventListener('click', () => this.goToDifference(q));
      this.compareLines.push(line); this.compareBox.append(line);
    }
    this.compareBox.classList.toggle('ti-several', many);
    this.compareLines.forEach((line, k) => {
      let d = null;
      const q = k + 1, slot = this.slots[q], name = many ? letter(q) + ' \u00b7 ' : '', say = (text) => { if (line.textContent !== name + text) line.textContent = name + text; line.title = [d ? t('go_to_difference') : '', many ? text : ''].filter(Boolean).join('\n'); };
      if (unsettled[0] || unsettled[q]) {
        line.disabled = true;
        if (!this.slots[0].failed && !slot.failed) return;  // in a moment
        say(!errors.length ? '' : t(errors.some((error) => error.pane === null) ? 'stale' : 'no_comparison'));
        return;
      }
      const [a, b] = [panes[0], panes[q]], same = a.tokenizer.digest === b.tokenizer.digest;
      d = firstDifference(a, b);
      const worded = d && this.wordedFor(q, d);
      d = slot.difference = worded || d;
      line.disabled = !d;
      if (!d) { say(t(same ? 'equal' : 'equal_bytes', { pane: letter(q) })); return; }
      say(t(d.byte === null ? 'first_difference_ids' : 'first_difference', { byte: number(d.byte ?? 0), a: placeIn('A', d.token_a), b: placeIn(letter(q), d.token_b) }) + (worded && worded.reason ? ' \u00b7 ' + sideNamed(said(worded.reason), q) : ''));
    });
  }
  // The server's first difference, its place and its reason together; that of the answers before only while it is at the
  // place where the page finds one now. Null: the server has said nothing, or could not.
  wordedFor(q, { byte, token_a, token_b }) {
    const { reason } = this.slots[q], found = reason && reason.first;
    if (!found || reason.of === this.pairOf(q)) return found;
    return found.byte === byte && found.token_a === token_a && found.token_b === token_b ? found : null;
  }
  // Comparing costs the server as much as an answer does: while answers are slow, it waits for a pause.
  compareSoon() {
    clearTimeout(this.compareTimer);
    const ask = () => { this.compareTimer = 0; this.slots.forEach((_, q) => { if (q) this.askComparison(q); }); };
    if (this.slots.some((slot) => slot.lastMs > CALM_MS)) this.compareTimer = setTimeout(ask, COMPARE_MS); else ask();
  }
  // Whether a reason is still to come.
  get comparing() { return Boolean(this.compareTimer) || this.slots.some((slot) => slot.comparing); }
  pairOf(q) { return [this.slots[0], this.slots[q]].map(({ key, base }) => key + '.' + base).join(' '); }
  // The reason of a first difference needs both conversations at the server; it is asked for when the panes are at rest.
  async askComparison(q) {
    const slot = this.slots[q], of = slot && this.pairOf(q), unsettled = this.unsettled();
    if (!slot || unsettled[0] || unsettled[q] || (slot.reason && slot.reason.of === of)) return;
    if (slot.comparing) { slot.compareAgain = true; return; }
    slot.comparing = true;
    const request = this.readShown(), text = await this.server.comparison({ session: this.session, at: this.at, fields: request.fields, panes: [request.panes[0], request.panes[q]] });
    const found = typeof text === 'string' ? JSON.parse(text).comparison : null;
    slot.comparing = false;
    const now = this.slots.indexOf(slot);
    if (now > 0 && found && this.pairOf(now) === of) {
      slot.comparison = found;
      slot.reason = { of, first: found.first_difference };
      this.showComparisons();
      if (VIEW_MODELS[this.view].compared) VIEW_MODELS[this.view].compared(this);
    }
    if (slot.compareAgain) { slot.compareAgain = false; if (now > 0) this.askComparison(now); }
  }
  goToDifference(q = 1) {
    const d = this.slots[q].difference, p = d.token_a !== null ? 0 : q;
    if (!VIEW_MODELS[this.view].flow) this.open('tokens');
    this.select(p, Math.min(p ? d.token_b : d.token_a, this.state.panes[p].n - 1), true);
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
    const { fields, panes } = this.readShown(), { slots } = this;
    const answers = await Promise.all(slots.map(async (slot, q) => opened(await this.server.safe({ session: this.session, at: this.at, base: slot.safeBase, fields, panes: [panes[q]] }))));
    this.safeInFlight = false;
    if (answers.some((answer) => answer === undefined)) this.lost(true);
    else if (this.state.safeOn && slots === this.slots) {
      const before = this.state.safe && this.state.safe.slots === slots ? this.state.safe.panes : this.state.own.panes;
      const shown = answers.map((answer, q) => { if (!answer || !answer.pane) return this.state.own.panes[q]; slots[q].safeBase = answer.pane.number; return before[q].next(answer.pane); });
      this.state.safe = { slots, panes: shown };
      this.show({ panes: shown, rows: new Rows(shown) }); this.drawTools(); this.draw(true);
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
