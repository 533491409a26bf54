// What surrounds the four editors: form or text, one undo history, format and minify, what is pasted, and the way from an
// error to its place.

const FORMED = ['messages', 'tools'];

class Writing {
  constructor(bench) {
    Object.assign(this, { bench, editors: bench.editors, caret: null, typing: false, pasting: 0 });
    this.history = new UndoHistory(this.editorTexts());  // the panes are not there yet: see restore
    for (const editor of this.editors) this.dress(editor);
    const fields = bench.$('.ti-fields');
    bench.root.addEventListener('input', (event) => { if (event.target.closest('.ti-fields, .ti-head, .ti-codewrap')) this.typing = /^(insertText|insertComposition|insertLineBreak|deleteContent)/.test(event.inputType || ''); }, true);
    document.addEventListener('keydown', (event) => this.key(event));
    fields.addEventListener('click', (event) => { const err = event.target.closest('.ti-err[data-at]'); if (err && !String(window.getSelection())) this.toPlace(err); });
  }
  // All that can be undone.
  texts() {
    return { ...this.editorTexts(), panes: JSON.stringify(this.bench.paneList()), form: JSON.stringify(this.bench.formInputs(EDITORS)) };
  }
  editorTexts() { return Object.fromEntries(this.editors.map((editor) => [editor.name, editor.area.value])); }
  editor(name) { return this.editors.find((each) => each.name === name); }
  button(cls, key, act) {
    const node = el('button', cls); node.type = 'button'; node.dataset.wt = key;
    node.addEventListener('mousedown', (event) => event.preventDefault());  // the caret stays where it is
    node.addEventListener('click', act);
    return node;
  }
  dress(editor) {
    const { area, wrap, name } = editor, box = wrap.closest('.ti-field'), label = box.querySelector('label'), head = el('div', 'ti-edithead'), tools = el('span', 'ti-edittools');
    tools.dataset.rove = ''; tools.setAttribute('role', 'toolbar'); tools.dataset.wl = 'bar_editor';
    label.replaceWith(head);
    head.append(label, tools);
    if (FORMED.includes(name)) {
      editor.form = new Form(editor, this);
      wrap.after(editor.form.node);
      editor.modes = ['form', 'json'].map((mode) => { const node = this.button('ti-mode', 'mode_' + mode, () => this.show(editor, mode)); node.setAttribute('aria-pressed', String(mode === 'json')); return node; });
      const group = el('span', 'ti-modes'); group.setAttribute('role', 'group'); group.dataset.wl = 'modes_' + name;
      group.append(...editor.modes); tools.append(group);
    }
    if (name === 'messages') {
      this.back = this.button('ti-icon', 'undo', () => this.undo(true)); this.forth = this.button('ti-icon', 'redo', () => this.undo(false));
      this.back.textContent = '\u21b6'; this.forth.textContent = '\u21b7';
      tools.append(this.back, this.forth);
      this.notice = el('p', 'ti-pasted'); this.notice.hidden = true; this.notice.setAttribute('role', 'status');
      (editor.form ? editor.form.node : wrap).after(this.notice);
    }
    for (const [key, sign, spaced] of [['format', '{\u2009\u21b5\u2009}', true], ['minify', '{\u2026}', false]]) { const node = this.button('ti-icon', key, () => this.layOut(editor, spaced)); node.textContent = sign; node.dataset.of = name; tools.append(node); }
    const go = this.button('ti-link ti-goto', 'go_to_error', () => this.toPlace(box.querySelector('.ti-err[id]'))); go.hidden = true;
    box.append(go);
    area.addEventListener('beforeinput', (event) => { this.keepCaret(editor); if (event.inputType === 'historyUndo' || event.inputType === 'historyRedo') { event.preventDefault(); this.undo(event.inputType === 'historyUndo'); } });
    area.addEventListener('paste', (event) => { const text = event.clipboardData && event.clipboardData.getData('text/plain'); if (name === 'messages' && text) setTimeout(() => this.pasted(text)); });
  }
  localize() {
    for (const node of this.bench.root.querySelectorAll('[data-wt]')) {
      const text = t(node.dataset.wt), words = node.classList.contains('ti-icon') ? null : text, of = node.dataset.of;
      if (words) node.textContent = words; else { node.title = text; node.setAttribute('aria-label', of ? text + ': ' + t(of).replace(' (JSON)', '') : text); }
    }
    for (const node of this.bench.root.querySelectorAll('[data-wl]')) node.setAttribute('aria-label', t(node.dataset.wl));
    for (const { form } of this.editors) if (form) form.localize();
    if (this.noticed_) this.tell(this.noticed_);
    this.mark();
  }
  mark() { this.back.disabled = !this.history.done.length; this.forth.disabled = !this.history.undone.length; }

  // ---- form or text -----------------------------------------------------------------------------------------------
  show(editor, mode) {
    const { form } = editor, asForm = mode === 'form', held = form.node.contains(document.activeElement) || document.activeElement === editor.area;
    const caret = editor.caret();
    editor.modes.forEach((node, k) => node.setAttribute('aria-pressed', String(mode === ['form', 'json'][k])));
    form.node.hidden = !asForm; editor.wrap.hidden = asForm;
    if (editor.name === 'messages') keep('localStorage', 'form', asForm ? '1' : '0');
    if (asForm) form.update();
    if (held && caret) editor.go(caret);
    this.bench.mark();
  }
  restore() {
    this.history = new UndoHistory(this.texts());  // what a reload brings back is where undoing ends
    if (stored('localStorage', 'form') === '1') this.show(this.editor('messages'), 'form');
  }

  // ---- changes ----------------------------------------------------------------------------------------------------
  keepCaret(editor) { const caret = editor.caret(); this.caret = caret && { name: editor.name, from: caret[0], to: caret[1] }; }
  edit(editor, edit, typing) {
    if (!typing || !this.caret || this.caret.name !== editor.name) this.keepCaret(editor);
    editor.area.value = applied(editor.area.value, edit);
    this.typing = Boolean(typing);
    if (typing) this.bench.typedAt = performance.now();
    this.bench.changed();
  }
  // The bench says that something may have changed: a key, the form, an example, a state that was opened.
  noticed() {
    const { panes } = this.history.known, { bench } = this;
    if (this.undoing) this.history.settle(this.texts());
    else {
      const noted = this.history.note(this.texts(), this.typing, this.caret, bench.example || null);
      if (noted.length) this.mark();
      if (noted.includes('panes') && !this.typing) bench.turned(JSON.parse(panes));
    }
    this.keepNotice();
    this.typing = false; this.caret = null;
    for (const editor of this.editors) if (editor.asForm()) editor.form.update();
  }
  undo(back) {
    const done = this.history.step(back), held = document.activeElement;
    if (!done) return;
    const { bench } = this, { panes, form, ...texts } = done.changed, refocus = placeOfFocus(bench);
    for (const [name, text] of Object.entries(texts)) this.editor(name).area.value = text;
    if (form) bench.fill(JSON.parse(form));
    if (panes) bench.putPanes(JSON.parse(panes));
    if (done.about !== (bench.example || null)) { bench.example = done.about; bench.showNotice(); }
    this.hush();
    this.undoing = true;
    bench.changed();
    this.undoing = false;
    this.mark();
    if (panes) { bench.compareSoon(); bench.panesOpened(); }
    if (panes || form) { refocus(); bench.tell(t(back ? 'undone_panes' : 'redone_panes')); return; }
    const editor = this.editor(done.caret.name), place = [done.caret.from, done.caret.to];
    if (held === this.back || held === this.forth) { if (!editor.asForm()) editor.area.setSelectionRange(...place); return; }
    editor.go(place);
  }
  key(event) {
    if (event.isComposing || event.altKey || !(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase(), redo = key === 'y' || (key === 'z' && event.shiftKey), { target } = event;
    if (key !== 'z' && key !== 'y') return;
    const ours = target.closest('.ti-edit, .ti-form'), typed = target.isContentEditable || target.matches('input:not([type=checkbox]):not([data-undo=page]), textarea');
    if ((!ours && typed) || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    this.undo(!redo);
  }
  // Lay a text out anew. The caret keeps its place among the characters that are no blanks.
  layOut(editor, spaced) {
    const { area } = editor, before = area.value, solid = (text) => text.replace(/[\s]/g, '').length, caret = editor.asForm() ? 0 : solid(before.slice(0, area.selectionStart));
    if (!before.trim()) return;
    if (!editor.scan()) { this.bench.tell(t('form_no_json')); this.toPlace(editor.wrap.closest('.ti-field').querySelector('.ti-err[id]')); return; }
    const text = laidOut(before, spaced ? '  ' : '');
    if (text === before) return;
    this.edit(editor, { from: 0, to: before.length, text });
    if (editor.asForm()) return;
    let at = 0;
    for (let count = 0; at < text.length && count < caret; at++) if (/\S/.test(text[at])) count++;
    area.setSelectionRange(at, at);
  }

  // ---- errors -----------------------------------------------------------------------------------------------------
  showPlaces() { for (const box of this.bench.root.querySelectorAll('.ti-fields .ti-field')) { const go = box.querySelector('.ti-goto'), err = box.querySelector('.ti-err[id]'); if (go) go.hidden = !err || err.hidden || !err.dataset.at; } }
  toPlace(err) {
    if (!err || !err.dataset.at) return;
    const editor = this.editor(err.closest('.ti-field').dataset.field), [line, column] = err.dataset.at.split(' ').map(Number);
    if (!editor) return;
    const { value } = editor.area, lines = value.split('\n'), at = Math.min(line, lines.length) - 1;
    let from = lines.slice(0, at).reduce((sum, text) => sum + text.length + 1, 0) + (at === 0 && value[0] === '\ufeff' ? 1 : 0);
    for (let k = 1; k < column && from < value.length; k++) from += value.codePointAt(from) > 0xffff ? 2 : 1;
    if (editor.asForm() && !editor.scan()) this.show(editor, 'json');
    editor.go([from, Math.min(value.length, from + (value.codePointAt(from) > 0xffff ? 2 : 1))]);
  }

  // ---- pasting ----------------------------------------------------------------------------------------------------
  // A text that was pasted and is all there is, and no plain messages: what is it?
  async pasted(text) {
    const { area } = this.editor('messages'), ends = (value) => value.replace(/\r\n?/g, '\n').trim(), mine = ++this.pasting;
    if (ends(area.value) !== ends(text)) return;
    this.hush();
    const scan = this.editor('messages').scan(), root = scan && scan.nodes[0];
    if (root && root.kind === 'array' && root.items.length && root.items.every((item) => item.kind === 'object' && memberOf(item, 'role'))) return;
    const before = area.value, answer = await this.bench.server.paste({ session: this.bench.session, text: before });
    if (typeof answer !== 'string' || mine !== this.pasting || area.value !== before) return;
    const { pasted, error } = JSON.parse(answer);
    if (error) { this.tell({ error }); return; }
    if (!pasted) return;
    this.keepCaret(this.editor('messages'));
    for (const [name, value] of Object.entries(pasted.fields)) this.editor(name).area.value = value;
    this.typing = false;
    this.bench.changed();
    this.tell({ pasted, kept: this.editors.map(({ name }) => name).filter((name) => !(name in pasted.fields) && this.editor(name).area.value.trim()) });
  }
  // What is said of a paste goes with its text: typing leaves the words, but no way back; any other change ends both.
  keepNotice() {
    if (!this.noticed_) return;
    const same = this.noticed_.texts === JSON.stringify(this.editorTexts());
    if (!same && !this.typing) { this.hush(); return; }
    const undo = this.notice.querySelector('.ti-btn');
    if (undo) undo.hidden = !same;
  }
  tell(about) {
    about.texts = about.texts ?? JSON.stringify(this.editorTexts());
    this.noticed_ = about;
    this.notice.hidden = false;
    this.notice.classList.toggle('ti-bad', Boolean(about.error));
    const words = about.error ? t('paste_error', { error: about.error }) : this.told(about), close = this.button('ti-icon', 'close', () => this.hush());
    close.textContent = '\u2715'; close.title = t('close'); close.setAttribute('aria-label', t('close'));
    const undo = this.button('ti-btn', 'undo', () => this.undo(true)); undo.textContent = t('undo');
    this.notice.replaceChildren(el('span', '', words), ...(about.error ? [close] : [undo, close]));
    this.keepNotice();
  }
  told({ pasted, kept }) {
    const { notes } = pasted, comma = t('list_comma'), place = (name) => t('paste_to_' + name), of = (what) => notes.filter((note) => note.what === what);
    const names = (list) => list.slice(0, 12).map((note) => note.name).join(comma) + (list.length > 12 ? ' \u2026' : '');
    return [
      t('paste_read', { shape: t('paste_' + pasted.shape), form: t('paste_form_' + pasted.form) }),
      of('moved').map((note) => note.name + ' \u2192 ' + place(note.to)).join(comma),
      ...(of('converted').length ? [t('paste_converted', { names: of('converted').map((note) => note.name + ' \u2192 ' + note.to).join(comma) })] : []),
      ...(of('dropped').length ? [t('paste_dropped', { names: names(of('dropped')) })] : []),
      ...(of('unread').length ? [t('paste_unread', { names: names(of('unread')) })] : []),
      ...(kept.length ? [t('paste_kept', { names: kept.map(place).join(comma) })] : []),
    ].join(' \u00b7 ');
  }
  hush() { this.noticed_ = null; this.notice.hidden = true; this.notice.replaceChildren(); }
}

// Panes that are put back are made anew: the way back to the control that had the focus, or to the one that stands there now.
const placeOfFocus = (bench) => {
  const held = document.activeElement, head = held.closest('.ti-head'), q = head ? bench.heads.findIndex(({ node }) => node === head) : -1;
  const name = held.dataset.combo ? '[data-combo="' + held.dataset.combo + '"]' : held.dataset.in ? '[data-in="' + held.dataset.in + '"]' : held.dataset.act ? '[data-act="' + held.dataset.act + '"]' : held.dataset.do ? '[data-do="' + held.dataset.do + '"]' : null;
  return () => {
    if (held.isConnected) return;
    const now = bench.heads[Math.min(q, bench.heads.length - 1)], node = now && ((name && now.node.querySelector(name)) || now.node.querySelector('.ti-paneact'));
    (node || bench.$('.ti-grid')).focus({ preventScroll: true });
  };
};
