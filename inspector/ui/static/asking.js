// Part of Bench: asks the server for the panes and says what is waited for and how old what is shown is.
// While a request is in flight, newer input only marks the page dirty; an older answer never replaces a newer one.

const OVERTAKE_MS = 1000, SLOW_MS = 1000, TYPING_MS = 200;

// What decides a pane's answer: its choices, and the texts that are typed.
const keysOf = ({ fields, panes }) => panes.map((pane) => [JSON.stringify({ ...pane, template_text: pane.template_text !== null }), [...Object.values(fields), pane.template_text].join('\u0000')]);

class Asking {
  changed() {
    this.writing.noticed();
    this.dirty = true;
    this.checkAge();
    clearTimeout(this.keepTimer);
    this.keepTimer = setTimeout(() => keep('sessionStorage', 'inputs', JSON.stringify(this.inputs())), 300);
    this.remember(true);
    clearTimeout(this.timer);
    // No delay while answers are quick; a pause in typing is awaited only when they are not. A request that hangs is
    // overtaken: the server then gives it up for the newer one.
    const hangs = this.inFlight ? OVERTAKE_MS - (performance.now() - this.started) : 0;
    this.timer = setTimeout(() => this.ask(), Math.max(hangs, this.lastMs > 250 ? 120 : 0, 0));
  }
  async ask() {
    if (!this.dirty) return;
    const mine = (this.asked = (this.asked || 0) + 1), started = (this.started = performance.now()), request = this.read();
    this.inFlight = true; this.dirty = false;
    const waiting = setTimeout(() => this.status(t('computing'), 'busy'), 200);
    const slow = setTimeout(() => this.watch(mine, started), SLOW_MS);
    const answer = await this.server.view({ session: this.session, ...request });
    clearTimeout(waiting); clearTimeout(slow);
    if (mine > (this.shown || 0) && answer !== 'null') { this.shown = mine; this.arrived(answer, started, request); }
    if (mine !== this.asked) return;
    this.inFlight = false;
    this.$('[data-act="cancel"]').hidden = true;
    this.root.dataset.ready = this.dirty ? '0' : '1';
    if (this.dirty) { clearTimeout(this.timer); this.changed(); }
  }
  // A slow request says what it is at and for how long, and can be given up.
  async watch(mine, started) {
    this.$('[data-act="cancel"]').hidden = false;
    while (this.inFlight && mine === this.asked) {
      const text = await this.server.progress({ session: this.session });
      if (!this.inFlight || mine !== this.asked) return;
      this.status(this.doing(typeof text === 'string' ? JSON.parse(text) : null, (performance.now() - started) / 1000), 'busy');
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
  doing(run, seconds) {
    const values = run ? { pane: letter(run.pane), ref: show(run.ref).replaceAll('\u00b7', ' '), mb: (run.done / 1e6).toFixed(1) + (run.total ? ' / ' + (run.total / 1e6).toFixed(1) : '') } : {};
    return t(!run ? 'computing' : run.step === 'artifacts' ? (run.done ? 'doing_download' : 'doing_artifacts') : 'doing_rendering', values) + ' \u00b7 ' + Math.round(seconds) + ' s';
  }
  cancel() {
    this.shown = this.asked = this.asked + 1;  // the answer, should it still come, is of no request
    clearTimeout(this.timer);
    this.inFlight = false; this.dirty = false; this.root.dataset.ready = '1';
    this.$('[data-act="cancel"]').hidden = true; this.$('[data-act="retry"]').hidden = false;
    this.status(t('cancelled'), 'bad');
    this.server.cancel({ session: this.session });
    this.showAge();
  }
  arrived(answer, started, request) {
    this.lastMs = performance.now() - started;
    this.lost(typeof answer !== 'string');
    if (typeof answer !== 'string') return;
    const read = JSON.parse(answer);
    this.answered = keysOf(request);
    request.panes.forEach((pane, q) => { if (read.panes && read.panes[q]) this.shownOf[q] = pane; });
    this.showAnswer(read, true);
    this.checkAge();
    this.status(t('answered', { ms: Math.round(performance.now() - started) }), '');
  }
  lost(gone) {
    this.$('[data-act="retry"]').hidden = !gone;
    if (gone) { this.status(t('lost'), 'bad'); this.stale([true, true]); }
  }
  status(text, cls) { const node = this.$('.ti-status'); node.textContent = text; node.className = 'ti-status ' + cls; }
  stale(flags) { this.failed = flags; this.showAge(); }
  // A pane whose inputs are no longer those of its answer is marked: at once after another choice, and while a person
  // types only when the answer is not quick.
  checkAge() {
    clearTimeout(this.ageTimer);
    if (!this.answered) return;
    const now = keysOf(this.read()), other = (k) => now.map((keys, q) => keys[k] !== this.answered[q][k]), [choice, typed] = [other(0), other(1)];
    this.waiting = this.waiting.map((flag, q) => choice[q] || (typed[q] && flag));
    this.showAge();
    if (typed.some(Boolean)) this.ageTimer = setTimeout(() => { this.waiting = choice.map((flag, q) => flag || typed[q]); this.showAge(); }, TYPING_MS);
  }
  showAge() {
    const panes = this.read().panes;
    this.state.stale = this.failed.map((flag, q) => flag || this.waiting[q]);
    this.state.stale.forEach((flag, q) => {
      const head = this.heads[q], of = this.shownOf[q], same = of && of.tokenizer === panes[q].tokenizer && of.template === panes[q].template && of.template_text === panes[q].template_text;
      this.root.classList.toggle('stale' + q, flag); head.node.classList.toggle('ti-old', flag);
      const why = this.waiting[q] ? (this.inFlight || this.dirty ? t('pane_waiting') : t('pane_old')) : this.failed[q] ? t('stale') : '';
      if (head.wanting()) { head.showAge(t('reference_wanted') + (of ? ' \u00b7 ' + t('shown_of', { choice: head.named(of) }) : '')); return; }
      head.showAge(flag && of ? why + (same ? '' : ' \u00b7 ' + t('shown_of', { choice: head.named(of) })) : why);
    });
  }
}
