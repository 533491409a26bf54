// The editable source of one pane's template: Jinja in colours behind a textarea (so undo, selection and input methods are
// the browser's), line numbers that say what ran, the error at its line, what an edit changed, and edits kept as revisions.
// It renders nothing: what is typed becomes the pane's template text, and the answer comes the usual way.

const MOST_COLOURED = 100000, CODE_LINE = 18;
const JINJA_WORDS = new Set('if elif else endif for endfor in not and or is set endset macro endmacro call endcall filter endfilter block endblock generation endgeneration raw endraw import from as include with endwith without context true false none True False None recursive scoped ignore missing extends loop break continue namespace do autoescape endautoescape'.split(' '));
const JINJA_TOKEN = /\s+|'[^'\\]*(?:\\[^][^'\\]*)*(?:'|\\?$)|"[^"\\]*(?:\\[^][^"\\]*)*(?:"|\\?$)|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z_]\w*|[-+]?[%}]\}|\*\*|\/\/|[=!<>]=|[^]/y;

// Jinja source as parts [class, text], all of the text and in order. What is not closed runs to the end.
const jinjaParts = (text) => {
  const parts = [], put = (cls, from, to) => { if (to > from) parts.push([cls, text.slice(from, to)]); };
  let at = 0, raw = false;
  while (at < text.length) {
    const open = raw ? findFrom(/\{%[-+]?\s*endraw\b/g, text, at) : findFrom(/\{[{%#]/g, text, at);
    put('', at, open);
    at = open;
    if (at >= text.length) break;
    if (text[at + 1] === '#') { const end = text.indexOf('#}', at + 2); const to = end < 0 ? text.length : end + 2; put('j-note', at, to); at = to; continue; }
    const close = text[at + 1] === '%' ? '%}' : '}}', head = /[-+]/.test(text[at + 2] || '') ? 3 : 2, start = at;
    put('j-mark', at, at + head);
    at = jinjaInside(text, at + head, close, parts);
    raw = close === '%}' && /^\{%[-+]?\s*raw\s*[-+]?%\}$/.test(text.slice(start, at));
  }
  return parts;
};
const findFrom = (pattern, text, at) => { pattern.lastIndex = at; const found = pattern.exec(text); return found ? found.index : text.length; };
// Inside of a block or an expression, up to and with its end: the position after it.
const jinjaInside = (text, at, close, parts) => {
  let depth = 0;
  while (at < text.length) {
    JINJA_TOKEN.lastIndex = at;
    let token = JINJA_TOKEN.exec(text)[0];
    if (token.endsWith(close) && (depth <= 0 || close === '%}')) { parts.push(['j-mark', token]); return at + token.length; }
    if (token.endsWith('}}') || token.endsWith('%}')) token = token[0];
    if (token === '{') depth++; else if (token === '}') depth--;
    const cls = jinjaClass(token), last = parts[parts.length - 1];
    if (last && last[0] === cls) last[1] += token; else parts.push([cls, token]);
    at += token.length;
  }
  return at;
};
const jinjaClass = (token) => (/^\s/.test(token) ? '' : /^['"]./.test(token) ? 'j-text' : /^\d/.test(token) ? 'j-num' : JINJA_WORDS.has(token) ? 'j-word' : /^[A-Za-z_]/.test(token) ? 'j-name' : 'j-op');
const partLines = (parts) => {
  const lines = [[]];
  for (const [cls, text] of parts) text.split('\n').forEach((piece, k) => { if (k) lines.push([]); if (piece) lines[lines.length - 1].push([cls, piece]); });
  return lines;
};

// Nodes of lines: only those that changed are made anew. keyOf tells lines apart, paint fills one's node.
class LineNodes {
  constructor(host) { this.host = host; this.keys = []; }
  set(lines, keyOf, paint) {
    const keys = lines.map(keyOf), old = this.keys;
    let head = 0, tail = 0;
    while (head < keys.length && head < old.length && keys[head] === old[head]) head++;
    while (tail < keys.length - head && tail < old.length - head && keys[keys.length - 1 - tail] === old[old.length - 1 - tail]) tail++;
    for (let k = old.length - tail - 1; k >= head; k--) this.host.children[k].remove();
    const fresh = document.createDocumentFragment(), before = this.host.children[head] || null;
    for (let k = head; k < keys.length - tail; k++) { const node = el('div', 'ti-codeline'); paint(node, lines[k], k); fresh.append(node); }
    this.host.insertBefore(fresh, before);
    this.keys = keys;
  }
}

class TemplateEditor {
  constructor(head) {
    this.head = head; this.bench = head.bench; this.diffOn = false; this.failed = null;
    this.node = el('section', 'ti-tpl');
    this.title = el('span', 'ti-tpltitle');
    this.bar = el('div', 'ti-tplbar');
    this.saveRow = this.makeSaveRow();
    this.code = this.makeCode();
    this.where = el('p', 'ti-err ti-tplerr'); this.where.hidden = true; this.where.setAttribute('role', 'alert');
    this.hint = el('p', 'ti-hint ti-tplhint'); this.hint.id = FLOW.uid + '-tplhint' + head.q;
    this.diff = el('div', 'ti-diffbox'); this.diff.hidden = true; this.diff.tabIndex = 0; this.diff.setAttribute('role', 'region');
    this.area.setAttribute('aria-describedby', this.hint.id);
    this.node.append(this.title, this.bar, this.saveRow, this.code, this.where, this.diff, this.hint);
    this.makeButtons();
    this.localize();
  }
  makeCode() {
    const box = el('div', 'ti-code'), wrap = el('div', 'ti-codewrap');
    this.gutter = el('div', 'ti-codegut'); this.gutter.setAttribute('aria-hidden', 'true');
    this.mirror = el('div', 'ti-codemirror'); this.mirror.setAttribute('aria-hidden', 'true');
    this.numbers = new LineNodes(this.gutter); this.colours = new LineNodes(this.mirror);
    this.area = el('textarea', 'ti-codearea'); this.area.spellcheck = false; this.area.wrap = 'off';
    this.area.autocomplete = 'off'; this.area.setAttribute('autocapitalize', 'off');
    this.area.dataset.in = 'template_source' + this.head.q;
    this.area.addEventListener('input', (event) => { this.composing = event.isComposing; this.paint(); if (!event.isComposing) this.typed(); });
    this.area.addEventListener('compositionend', () => { this.composing = false; this.typed(); });
    this.area.addEventListener('scroll', () => this.follow(), { passive: true });
    this.area.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.follow()).observe(this.area);
    wrap.append(this.mirror, this.area); box.append(this.gutter, wrap);
    return box;
  }
  makeButtons() {
    const add = (key, act) => { const node = button('ti-btn', '', act); node.dataset.act2 = key; this.bar.append(node); return node; };
    this.buttons = {
      diff: add('diff', () => { this.diffOn = !this.diffOn; this.showDiff(); }),
      reset: add('reset_template', () => this.reset()),
      save: add('save_revision', () => this.askName()),
      forget: add('forget_revision', () => this.head.forgetSaved()),
      download: add('download_template', () => this.download()),
      empty: add('empty_template', () => this.replace('')),
    };
  }
  async reset() {
    const text = await this.head.originText();
    if (typeof text === 'string') this.replace(plainBreaks(text)); else this.fail(text.error);
  }
  fail(text) { this.where.hidden = false; this.where.textContent = text; }
  makeSaveRow() {
    const row = el('form', 'ti-saverow'), label = el('label'), input = el('input'), ok = el('button', 'ti-btn'), no = button('ti-btn', '', () => { row.hidden = true; this.buttons.save.focus(); });
    row.hidden = true; input.type = 'text'; input.maxLength = 80; input.autocomplete = 'off'; ok.type = 'submit';
    label.append(el('span', 'ti-key'), input); row.append(label, ok, no);
    row.addEventListener('submit', (event) => { event.preventDefault(); this.save(input.value.trim()); });
    row.addEventListener('keydown', (event) => { if (event.key === 'Escape') { event.stopPropagation(); no.click(); } });
    this.saveParts = { label: label.firstChild, input, ok, no };
    return row;
  }
  localize() {
    const name = letter(this.head.q);
    this.node.setAttribute('aria-label', name + ' ' + t('template_text'));
    this.area.setAttribute('aria-label', name + ' ' + t('template_text'));
    this.area.placeholder = t('template_text_hint');
    this.hint.textContent = t('template_keys');
    this.diff.setAttribute('aria-label', name + ' ' + t('diff'));
    for (const [key, node] of Object.entries(this.buttons)) { node.textContent = t(node.dataset.act2); node.setAttribute('aria-label', name + ' ' + t(node.dataset.act2)); node.dataset.do = key; }
    this.saveParts.label.textContent = t('revision_name') + ' '; this.saveParts.ok.textContent = t('save'); this.saveParts.no.textContent = t('cancel');
    this.showState();
  }

  // ---- what is edited -------------------------------------------------------------------------------------------
  // Show a text, with what its lines were in the last render and the error in it. Text under composition is left alone.
  show({ text, lines, error, waiting }) {
    this.area.readOnly = Boolean(waiting);
    if (typeof text === 'string' && !this.composing && plainBreaks(text) !== this.area.value) {
      this.area.value = text;
      this.area.setSelectionRange(0, 0); this.area.scrollTop = this.area.scrollLeft = 0;
      if (this.diffOn) this.askDiff();
    }
    this.marks = lines; this.failed = error;
    this.paint(); this.showState();
  }
  typed() {
    this.head.templateTyped(this.area.value);
    clearTimeout(this.diffTimer);
    if (this.diffOn) this.diffTimer = setTimeout(() => this.askDiff(), 200);
    this.showState();
  }
  // Put a text in as if it were typed, so that the browser can take it back.
  replace(text) { this.area.focus(); this.area.select(); insertText(this.area, text); }
  showState() {
    const { head } = this, now = head.templateNow(), { buttons } = this;
    this.title.replaceChildren(el('b', 'ti-badge ti-badge-small', letter(head.q)), ' ', el('span', 'ti-strong', showButSpaces(now.title)), ' ');
    if (now.digest) this.title.append(el('span', 'ti-digest', now.digest.slice(0, 12)));
    if (now.edited) this.title.append(' ', el('span', 'ti-editedmark', t(now.origin ? 'edited_of' : 'edited_none', { origin: now.origin ? showButSpaces(now.origin) : '' })));
    buttons.reset.disabled = !(now.draft && now.origin);
    buttons.save.disabled = !now.draft || !this.area.value;
    buttons.forget.hidden = !now.saved;
    buttons.diff.disabled = !now.origin; buttons.diff.setAttribute('aria-pressed', this.diffOn);
    buttons.download.disabled = !this.area.value;
    if (!now.origin && this.diffOn) { this.diffOn = false; this.showDiff(); }
    this.showError();
  }
  showError() {
    const { failed } = this;
    this.where.hidden = !failed;
    if (!failed) return;
    this.where.replaceChildren(failed.text);
    if (failed.line) this.where.append(' ', button('ti-link', t('go_to_line', { n: failed.line }), () => this.go(failed.line)));
  }
  go(line) {
    const { area } = this, from = area.value.split('\n').slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0), to = area.value.indexOf('\n', from);
    area.focus();
    area.setSelectionRange(from, to < 0 ? area.value.length : to);
    area.scrollTop = Math.max(0, (line - 1) * CODE_LINE - area.clientHeight / 3);
  }

  // ---- keys -----------------------------------------------------------------------------------------------------
  // Tab indents; after Escape it leaves, as Shift+Tab then does too.
  key(event) {
    if (event.isComposing) return;
    if (event.key === 'Escape') { event.stopPropagation(); this.leaving = true; this.bench.tell(t('tab_leaves')); return; }
    if (event.key === 'Tab' && !this.leaving && !event.ctrlKey && !event.altKey && !event.metaKey && !this.area.readOnly) { event.preventDefault(); this.indent(event.shiftKey); return; }
    if (event.key !== 'Shift' && event.key !== 'Tab') this.leaving = false;
    event.stopPropagation();
  }
  indent(back) {
    const { area } = this, { value, selectionStart: a, selectionEnd: b } = area, from = value.lastIndexOf('\n', a - 1) + 1;
    if (!back && a === b) { insertText(area, '  '); return; }
    const block = value.slice(from, b), next = back ? block.replace(/^( {1,2}|\t)/gm, '') : block.replace(/^(?=[^])/gm, '  ');
    if (next === block) return;
    area.setSelectionRange(from, b);
    insertText(area, next);
    area.setSelectionRange(from, from + next.length);
  }

  // ---- drawing --------------------------------------------------------------------------------------------------
  paint() {
    const text = this.area.value, plain = text.length > MOST_COLOURED;
    this.code.classList.toggle('ti-plain', plain);
    const lines = plain ? [] : partLines(jinjaParts(text));
    this.colours.set(lines, (parts) => parts.map(([cls, piece]) => cls + '\u0000' + piece).join('\u0001'), (node, parts) => {
      for (const [cls, piece] of parts) node.append(cls ? el('span', cls, piece) : piece);
      if (!parts.length) node.append('\u200b');
    });
    const { marks } = this, fresh = marks && marks.text === text, wrong = this.failed ? this.failed.line : 0;
    this.gutter.classList.toggle('ti-oldmarks', Boolean(marks) && !fresh);
    const classes = lines.map((_, k) => lineClass(marks, k + 1) + (wrong === k + 1 ? ' ti-lnwrong' : ''));
    this.numbers.set(classes, (cls) => cls, (node, cls) => { node.className = 'ti-codeline ti-ln ' + cls; });
    this.follow();
  }
  follow() {
    const { area, mirror, gutter } = this;
    mirror.style.width = area.clientWidth + 'px'; mirror.style.height = area.clientHeight + 'px';
    mirror.scrollTop = area.scrollTop; mirror.scrollLeft = area.scrollLeft; gutter.scrollTop = area.scrollTop;
  }

  // ---- the difference from its revision -------------------------------------------------------------------------
  showDiff() {
    this.diff.hidden = !this.diffOn;
    this.buttons.diff.setAttribute('aria-pressed', this.diffOn);
    if (this.diffOn) this.askDiff(); else this.diff.replaceChildren();
  }
  async askDiff() {
    const mine = (this.diffAsked = (this.diffAsked || 0) + 1), origin = await this.head.originText(), text = this.head.templateNow().text;
    if (mine !== this.diffAsked || !this.diffOn) return;
    if (typeof origin !== 'string') { this.diff.replaceChildren(el('p', 'ti-err', origin.error)); return; }
    const answer = await this.bench.server.template_changes({ session: this.bench.session, origin, text });
    if (mine !== this.diffAsked || !this.diffOn) return;
    const found = typeof answer === 'string' ? JSON.parse(answer) : { error: t('lost') };
    if (found.error) this.diff.replaceChildren(el('p', 'ti-err', found.error)); else this.drawDiff(found);
  }
  drawDiff({ added, removed, rows, digest, origin_digest }) {
    const now = this.head.templateNow(), head = el('p', 'ti-diffhead');
    head.append(el('span', 'ti-key', now.origin + ' '), el('span', 'ti-digest', origin_digest.slice(0, 12)), ' \u2192 ', el('span', 'ti-digest', digest.slice(0, 12)), ' ', el('span', 'ti-strong', rows.length ? '+' + added + ' \u2212' + removed : t('diff_none')));
    if (rows.length) head.append(' ', button('ti-link', t('download_diff'), () => saveFile(fileName(now.title || now.origin + '-edited') + '.diff', unified(rows, now.origin, now.title || now.origin + ' (' + t('edited') + ')'), 'text/x-diff')));
    const table = el('div', 'ti-diffrows');
    for (const [sign, old, fresh, text] of rows) {
      const row = el('div', 'ti-diffrow ti-d' + ({ '@': 'at', '+': 'add', '-': 'del' }[sign] || 'same')), number = (n) => el('span', 'ti-diffno', n ? String(n) : '');
      row.append(number(old), number(fresh), el('span', 'ti-diffsign', sign === ' ' ? '\u00a0' : sign), el('span', 'ti-difftext', sign === '\\' ? t('diff_no_newline') : showButSpaces(text)));
      table.append(row);
    }
    this.diff.replaceChildren(head, table);
  }

  // ---- keeping it -----------------------------------------------------------------------------------------------
  askName() {
    const { input } = this.saveParts;
    this.saveRow.hidden = false;
    input.value = this.head.nextName();
    input.focus(); input.select();
  }
  async save(name) {
    const text = this.area.value, answer = await this.bench.server.template_changes({ session: this.bench.session, origin: '', text });
    const found = typeof answer === 'string' ? JSON.parse(answer) : { error: t('lost') };
    if (found.error) { this.fail(found.error); return; }
    this.saveRow.hidden = true;
    this.head.saveTemplate(name || this.head.nextName(), text, found.digest);
    this.bench.tell(t('saved_as', { name: name || '' }));
    this.area.focus();
  }
  download() { const { title, origin, text } = this.head.templateNow(); saveFile(fileName(title || origin + '-edited') + '.jinja', text, 'text/plain'); }
}

// What a line was in the last render: 'ran', 'idle' (code that did not run), 'none' (no code), '' (not known).
const lineClass = (marks, line) => (!marks || !marks.known ? (marks && marks.wrote.has(line) ? 'ran' : '') : marks.ran.has(line) ? 'ran' : marks.code.has(line) ? 'idle' : 'none');
// A textarea has no carriage returns.
const plainBreaks = (text) => text.replace(/\r\n?/g, '\n');
// Typed as a person types it, so that the browser's undo knows it.
const insertText = (area, text) => {
  area.focus();
  if (document.execCommand(text ? 'insertText' : 'delete', false, text)) return;
  area.setRangeText(text, area.selectionStart, area.selectionEnd, 'end');
  area.dispatchEvent(new Event('input'));
};
const unified = (rows, from, to) => '--- ' + from + '\n+++ ' + to + '\n' + rows.map(([sign, , , text]) => (sign === '@' ? '@@ ' + text + ' @@' : sign === '\\' ? '\\ No newline at end of file' : sign + text) + '\n').join('');
const fileName = (title) => title.replace(/[^\w.@-]+/g, '-').replace(/^[-.]+|-+$/g, '').slice(0, 80) || 'template';
