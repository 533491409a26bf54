// Part of Bench: asks the server for the panes and says what is waited for and how old what is shown is.
// Every pane is asked for by itself: one request in flight a pane, the newest input wins, a slow pane holds up no other,
// and an older answer never replaces a newer one. Answers that come close together are shown together.

const OVERTAKE_MS = 1000, SLOW_MS = 1000, TYPING_MS = 200, TOGETHER_MS = 60, QUICK_MS = 400, CALM_MS = 150, PAUSE_MS = 120, CLOCK_MS = 60000, COMPARE_MS = 500, AGAIN_MS = 1000, MOST_AGAIN_MS = 15000, LARGE = 100000;

// What decides each pane's answer: its choices, and the texts that are typed.
const keysOf = ({ fields, panes }) => panes.map((pane) => [JSON.stringify({ ...pane, template_text: pane.template_text !== null }), [...Object.values(fields), pane.template_text].join('\u0000')]);
const sameKeys = (a, b) => Boolean(a && b) && a[0] === b[0] && a[1] === b[1];

// A pane's conversation with the server. `key` is its name there for as long as the page is open; `base` the answer that
// the page holds; `sent` and `answered` the keys of the newest request and of the answer that is shown.
class Slot {
  constructor() {
    Object.assign(this, { key: (Slot.made = (Slot.made || 0) + 1).toString(36), base: null, safeBase: null, asked: 0, shown: 0, inFlight: false, dirty: false, lastMs: 0, started: 0, sent: null, answered: null, shownOf: null, errors: [], failed: true, waiting: false, lost: false, reason: null, queue: null });
  }
}

class Asking {
  get inFlight() { return this.slots.some((slot) => slot.inFlight); }
  get dirty() { return this.slots.some((slot) => slot.dirty); }

  // The input may be another one: ask for the panes that it concerns. `force`: for all, whatever they were asked.
  changed(force) {
    showFewFields(this);
    forgetOtherModel(this);
    this.writing.noticed();
    const keys = keysOf(this.read()), now = Date.now(), other = this.slots.map((slot, q) => Boolean(force) || !sameKeys(slot.sent, keys[q]));
    // Panes without a clock of their own show one time, so that they can be compared.
    if (other.every(Boolean) || (other.some(Boolean) && now - this.at > CLOCK_MS)) { this.at = now; other.fill(true); }
    if (other.some(Boolean) && !this.inFlight && !this.dirty) this.began = performance.now();
    if (other.some(Boolean)) { clearTimeout(this.compareTimer); this.compareTimer = 0; }
    other.forEach((yes, q) => { if (yes) this.want(this.slots[q]); else this.slots[q].dirty = false; });
    if (!other.some(Boolean)) this.changedElsewhere();
    this.checkAge(); this.settled();
    clearTimeout(this.keepTimer);
    this.keepTimer = setTimeout(() => keep('sessionStorage', 'inputs', JSON.stringify(this.inputs())), this.restMs());
    this.remember(true);
  }
  // How long to wait before what is typed is kept: of a large text that takes as long as drawing does. Leaving the page keeps it too.
  restMs() { return this.field('messages').value.length > LARGE ? 2000 : 300; }
  // An input that no pane depends on: the model of the logits or of the estimate.
  changedElsewhere() {
    this.state.logitsStale = Boolean(this.state.logits);
    if (this.view === 'logits') this.draw(true);
    if (!this.inFlight) { this.askEstimate(); this.compareSoon(); }  // a comparison that failed, or that typing put off
  }
  // No delay while answers are quick; a pause in typing is awaited only when they are not. A request that hangs is
  // overtaken: the server then gives it up for the newer one.
  want(slot) {
    slot.dirty = true;
    clearTimeout(slot.timer);
    const hangs = slot.inFlight ? OVERTAKE_MS - (performance.now() - slot.started) : 0;
    slot.timer = setTimeout(() => this.ask(slot), Math.max(hangs, slot.lastMs > QUICK_MS ? PAUSE_MS : 0, 0));
  }
  async ask(slot) {
    const q = this.slots.indexOf(slot);
    if (!slot.dirty || q < 0) return;
    const mine = (slot.asked += 1), started = (slot.started = performance.now()), { fields, panes } = this.read(), keys = keysOf({ fields, panes: [panes[q]] })[0];
    Object.assign(slot, { inFlight: true, dirty: false, sent: keys });
    const waiting = setTimeout(() => this.status(this.server.pauses ? this.server.line : t('computing'), 'busy'), 200);
    const slow = setTimeout(() => this.watch(slot, mine, started), SLOW_MS);
    const answer = await this.server.view({ session: this.session, turn: mine, at: this.at, base: slot.base, fields, panes: [panes[q]] }).then(opened).catch(() => undefined);
    clearTimeout(waiting); clearTimeout(slow);
    const mineToShow = mine > slot.shown && answer !== null && this.slots.includes(slot);
    if (mine === slot.asked) { slot.inFlight = false; slot.queue = null; }
    if (mineToShow) { slot.shown = mine; this.arrived(slot, answer, keys, panes[q], performance.now() - started); }
    if (mine !== slot.asked) return;
    if (slot.dirty) this.want(slot);
    this.settled();
  }
  // A slow request says what it is at and for how long, and can be given up.
  async watch(slot, mine, started) {
    this.$('[data-act="cancel"]').hidden = false;
    while (slot.inFlight && mine === slot.asked) {
      const text = await this.server.progress({ session: this.session, slot: slot.key });
      if (!slot.inFlight || mine !== slot.asked) return;
      const run = typeof text === 'string' ? JSON.parse(text) : null;
      slot.queue = run && run.step === 'queue' ? run : null;
      this.showAge();
      this.status(this.doing(slot, run, (performance.now() - started) / 1000), 'busy');
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
  doing(slot, run, seconds) {
    if (this.server.pauses) return this.server.line;
    if (slot.queue) return letter(this.slots.indexOf(slot)) + ': ' + this.waits(slot) + ' \u00b7 ' + Math.round(seconds) + ' s';
    const values = run ? { pane: letter(this.slots.indexOf(slot)), ref: show(run.ref).replaceAll('\u00b7', ' '), mb: (run.done / 1e6).toFixed(1) + (run.total ? ' / ' + (run.total / 1e6).toFixed(1) : '') } : {};
    return t(!run ? 'computing' : run.step === 'artifacts' ? (run.done ? 'doing_download' : 'doing_artifacts') : 'doing_rendering', values) + ' \u00b7 ' + Math.round(seconds) + ' s';
  }
  // Why nothing of a pane is computed yet; '' where it is.
  waits(slot) {
    if (!slot.inFlight) return '';
    if (this.server.held.has('view' + slot.key)) return t('pane_busy');
    return slot.queue ? t(slot.queue.why === 'own' ? 'pane_queue_own' : 'pane_queue_others', { n: number(slot.queue.before) }) : '';
  }
  cancel() {
    for (const slot of this.slots) {
      if (slot.inFlight) this.server.cancel({ session: this.session, slot: slot.key });
      slot.failed = slot.failed || slot.inFlight || slot.dirty;  // what it shows is compared with nothing, nor asked about
      slot.shown = slot.asked += 1;  // the answer, should it still come, is of no request
      clearTimeout(slot.timer);
      slot.inFlight = false; slot.dirty = false;
    }
    this.$('[data-act="retry"]').hidden = false;
    this.status(t('cancelled'), 'bad');
    this.showAge(); this.showComparisons(); this.settled();
  }
  // What the last answer of a pane settles: the buttons, and that the page is at rest.
  settled() {
    if (!this.inFlight) this.$('[data-act="cancel"]').hidden = true;
    this.root.dataset.ready = this.inFlight || this.dirty || this.showTimer ? '0' : '1';
  }
  arrived(slot, answer, keys, pane, ms) {
    slot.lastMs = ms;
    if (answer === undefined) { this.lost(slot); return; }
    slot.lost = false;
    if (!this.slots.some((each) => each.lost)) this.heard();
    if (answer.errors.some(({ kind }) => kind === 'Busy')) this.$('[data-act="retry"]').hidden = false;
    if (answer.legend) { FLAG = answer.legend.flags; KINDS = answer.legend.kinds; }
    const q = this.slots.indexOf(slot), fresh = Boolean(answer.pane);
    if (fresh && answer.pane.base !== null && answer.pane.base !== slot.base) { slot.base = null; slot.sent = null; this.want(slot); return; }
    Object.assign(slot, { answered: keys, errors: answer.errors, failed: !fresh, news: true });
    if (fresh) {
      slot.base = answer.pane.number; slot.shownOf = pane;
      this.state.own.panes = this.state.own.panes.map((old, p) => (p === q ? old.next(answer.pane) : old));
    }
    this.showSoon();
  }
  // The answers of one key come close together: the page is drawn once for them, unless one is slow.
  showSoon() {
    const now = performance.now(), awaited = this.slots.some((slot) => slot.inFlight && now - slot.started < TOGETHER_MS + slot.lastMs && slot.lastMs < QUICK_MS * 4);
    if (!awaited) { this.showNow(); return; }
    if (!this.showTimer) this.showTimer = setTimeout(() => this.showNow(), TOGETHER_MS);
  }
  showNow() {
    clearTimeout(this.showTimer); this.showTimer = 0;
    this.showAnswers(true);
    this.checkAge();
    if (!this.inFlight && !this.dirty && !this.slots.some((slot) => slot.lost)) this.status(t('answered', { ms: Math.round(performance.now() - this.began) }), '');
    this.settled();
  }
  // The server gave no answer, for a pane or for something that a view asked. What was not answered is asked again by itself
  // as soon as the server is there, at growing intervals; only the panes without an answer are marked.
  lost(slot) {
    if (slot instanceof Slot) { Object.assign(slot, { lost: true, failed: true, sent: null }); this.showAge(); this.showComparisons(); }
    this.unheard = (this.unheard || 0) + 1;
    this.$('[data-act="retry"]').hidden = false;
    this.status(t('lost'), 'bad');
    clearTimeout(this.againTimer);
    this.againTimer = setTimeout(() => this.listenAgain(), Math.min(MOST_AGAIN_MS, AGAIN_MS * 2 ** (this.unheard - 1)));
  }
  async listenAgain() {
    const text = await this.server.progress({ session: this.session, slot: this.slots[0].key });
    if (typeof text !== 'string') { this.lost(); return; }
    const lost = this.slots.filter((slot) => slot.lost), { opened: ask } = VIEW_MODELS[this.view];
    if (lost.length) for (const slot of lost) this.want(slot);
    else { this.heard(); this.status('', ''); if (ask) ask(this); }
  }
  heard() { clearTimeout(this.againTimer); this.unheard = 0; this.$('[data-act="retry"]').hidden = true; }
  status(text, cls) { const node = this.$('.ti-status'); node.textContent = text; node.className = 'ti-status ' + cls; }
  // A pane whose inputs are no longer those of its answer is marked: at once after another choice, and while a person
  // types only when the answer is not quick.
  checkAge() {
    clearTimeout(this.ageTimer);
    const now = keysOf(this.read()), other = (k) => this.slots.map((slot, q) => Boolean(slot.answered) && now[q][k] !== slot.answered[k]), [choice, typed] = [other(0), other(1)];
    this.slots.forEach((slot, q) => { slot.waiting = choice[q] || (typed[q] && slot.waiting); });
    this.showAge();
    if (typed.some(Boolean)) this.ageTimer = setTimeout(() => { this.slots.forEach((slot, q) => { slot.waiting = choice[q] || typed[q]; }); this.showAge(); }, TYPING_MS);
  }
  showAge() {
    const { panes } = this.read();
    this.state.stale = this.slots.map((slot) => slot.failed || slot.waiting);
    this.slots.forEach((slot, q) => {
      const head = this.heads[q], of = slot.shownOf, flag = this.state.stale[q] && Boolean(slot.answered), same = of && of.tokenizer === panes[q].tokenizer && of.template === panes[q].template && of.template_text === panes[q].template_text;
      this.root.classList.toggle('stale' + q, flag); head.node.classList.toggle('ti-old', flag);
      const why = slot.lost ? t('lost_pane') : this.waits(slot) || (slot.waiting ? (slot.inFlight || slot.dirty ? t('pane_waiting') : t('pane_old')) : slot.failed && slot.answered ? t('stale') : '');
      if (head.wanting()) { head.showAge(t('reference_wanted') + (of ? ' \u00b7 ' + t('shown_of', { choice: head.named(of) }) : '')); return; }
      head.showAge(flag && of ? why + (same ? '' : ' \u00b7 ' + t('shown_of', { choice: head.named(of) })) : why);
    });
  }
}
