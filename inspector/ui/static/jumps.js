// Part of Bench: to the origin of a selection and back.

const pathText = (steps) => steps.map((step, k) => (typeof step === 'number' ? '[' + step + ']' : /^[A-Za-z_]\w*$/.test(step) ? (k ? '.' : '') + step : '[' + JSON.stringify(step) + ']')).join('');

class Jumps {
  pickPart(q, key) { this.choose({ kind: 'part', q, key }, true); }
  pickLine(q, line) { this.choose({ kind: 'line', q, line }, true); }
  textAt(path) {
    const steps = splitPath(path), editor = steps && this.editorOf({ steps, from: null, to: null });
    if (!editor) return '';
    const scan = editor.scan(), node = scan.byKey.get(keyOf(steps));
    return node && node.kind === 'string' ? textOf(scan, node) : '';
  }
  // A filled tools or documents editor wins over the same field of a whole request in the messages editor.
  editorOf(field) { return [...this.editors].reverse().find((editor) => editor.place(field)) || null; }
  // Show tokens [from, to) of the library's ids in the Tokens view.
  go(q, from, to) {
    if (this.state.safeOn) { this.state.safeOn = false; this.show(this.state.own); }
    const { view } = this;
    if (!VIEW_MODELS[view].flow) this.open('tokens');
    this.choose({ kind: 'tokens', q, from, to }, true, [q, from]);
    this.$('.ti-grid').focus();
    this.back = { view, selected: null };
  }
  // From the Control view to the origin of one of its tokens.
  jumpFrom(q, i, where) {
    const { view } = this;
    if (this.state.safeOn) { this.state.safeOn = false; this.show(this.state.own); }
    this.choose({ kind: 'tokens', q, from: i, to: i + 1 }, false, [q, i]);
    this.jump(where, view);
  }
  // To the origin of the selection: its text in an editor, or the template line that wrote it.
  jump(where, from) {
    if (!this.link) return;
    const fields = this.pick.kind === 'fields' ? this.pick.fields : this.link.fields, { selected } = this, back = { view: from || this.view, pick: this.pick, selected };
    const field = where === 'line' ? null : fields.find((each) => this.editorOf(each));
    if (field) {
      this.back = back;
      const editor = this.editorOf(field);
      this.$('.ti-input').open = true;
      this.quiet = performance.now() + 400;  // the caret is put there by us: the selection stays what it is
      editor.go(editor.place(field));
      this.tell(t('jumped_to', { place: pathText(field.steps) }));
      return;
    }
    const q = this.link.q || 0, lines = [...this.link.panes[q].lines];
    if (!lines.length) { this.tell(t('no_origin')); return; }
    this.back = back;
    if (this.view !== 'template') this.open('template');
    this.reveal();
    this.$('.ti-grid').focus();
    this.tell(t('jumped_to', { place: t('template_line', { n: Math.min(...lines) }) }));
  }
  // To the tokens of a template line.
  jumpToTokens() {
    const first = this.firstToken(this.link);
    if (!first) { this.tell(t('nothing_linked')); return; }
    const back = { view: this.view, pick: this.pick, selected: this.selected };
    this.open('tokens');
    this.$('.ti-grid').focus();
    this.back = back;
    this.say();
  }
  // Back to where the last jump began; from an editor without one, to the tokens its caret points at.
  goBack() {
    const { back } = this;
    this.back = null;
    if (back) {
      if (back.view !== this.view) this.open(back.view);
      if (back.pick && !(back.pick.kind === 'tokens' && back.pick.to > this.state.panes[back.pick.q].n)) this.choose(back.pick, true, back.selected);
    } else if (document.activeElement && document.activeElement.closest('.ti-edit, .ti-form')) {
      if (!VIEW_MODELS[this.view].flow && this.view !== 'template') this.open('tokens'); else if (this.link) this.reveal();
    } else { this.clear(); return; }
    const view = VIEW_MODELS[this.view];
    if (!view.returned || !view.returned(this)) this.$(view.panel ? '.ti-panel' : '.ti-grid').focus();
  }
  caretMoved() {
    const editor = this.editors.find((each) => each.active());
    if (!editor || performance.now() < (this.quiet || 0)) return;
    clearTimeout(this.caretTimer);
    const typed = performance.now() - (this.typedAt || -1000) < 300;
    this.caretTimer = setTimeout(() => {
      if (this.inFlight || this.dirty) return;
      const fields = editor.fieldsAtCaret(), pick = { kind: 'fields', fields };
      if (!fields.length) { if (this.pick && this.pick.kind === 'fields') this.clear(); return; }
      if (!samePick(pick, this.pick)) this.choose(pick, !typed);
    }, 60);
  }
}
