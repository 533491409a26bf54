// Files of a person's own for a pane: chosen or dropped on its head, sent in parts, then used as the reference that the
// server gives them. Of a GGUF only the metadata is sent.

const UPLOAD_PART = 1 << 20, UPLOAD_MOST = 64 << 20, UPLOAD_FILES = 50;
const USEFUL_FILE = /^(tokenizer\.json|tokenizer_config\.json|chat_template\.(jinja|json)|processor_config\.json|tekken\.json|vocab\.(txt|json)|merges\.txt|special_tokens_map\.json|added_tokens\.json|config\.json|generation_config\.json|.*\.jinja|.*\.model(\.v\d+(m\d+)?)?|.*\.tiktoken|rwkv_vocab.*\.txt)$/;

class UploadError extends Error { }

class Uploads {
  constructor(head) {
    this.head = head; this.bench = head.bench;
    this.input = el('input'); this.input.type = 'file'; this.input.multiple = true; this.input.hidden = true; this.input.tabIndex = -1;
    this.button = button('ti-btn ti-filesbutton', '', () => this.input.click()); this.button.dataset.t = 'files_button'; this.button.dataset.tl = 'files_label';
    this.said = el('p', 'ti-hint ti-upload'); this.said.setAttribute('role', 'status'); this.said.hidden = true;
    this.err = el('p', 'ti-refused'); this.err.setAttribute('role', 'alert'); this.err.hidden = true;
    head.tokenizer.label.append(' '); head.tokenizer.label.after(this.button);
    head.tokenizer.box.classList.add('ti-withfiles');
    head.tokenizer.box.append(this.input);
    head.template.box.after(this.said, this.err);
    this.input.addEventListener('change', () => { const files = Array.from(this.input.files, (file) => ({ file, path: file.name })); this.input.value = ''; this.take(files, false); });
    const chosen = head.chosen.bind(head);
    head.chosen = () => { chosen(); this.check(); };
    for (const field of [head.tokenizer, head.template]) field.custom.addEventListener('input', () => this.check());
    this.listen();
  }
  // What is said of the files stands there as long as they are the choice.
  check() {
    const { head, used } = this, uses = (field) => used && field.select.value === CUSTOM && field.custom.value.trim() === used.ref;
    for (const field of [head.tokenizer, head.template]) if (uses(field)) field.hint.hidden = true;
    if (used) this.say(uses(head.tokenizer) || uses(head.template) ? used.text : '');
  }
  listen() {
    const { node } = this.head, holds = (event) => event.dataTransfer && Array.from(event.dataTransfer.types).includes('Files');
    let depth = 0;
    const over = (on) => { depth = on ? depth : 0; node.classList.toggle('ti-drop', on); node.dataset.drop = on ? t('files_drop') : ''; };
    node.addEventListener('dragenter', (event) => { if (holds(event)) { event.preventDefault(); depth++; over(true); } });
    node.addEventListener('dragover', (event) => { if (holds(event)) { event.preventDefault(); event.dataTransfer.dropEffect = 'copy'; } });
    node.addEventListener('dragleave', (event) => { if (holds(event) && --depth <= 0) over(false); });
    node.addEventListener('drop', async (event) => {
      if (!holds(event)) return;
      event.preventDefault(); over(false);
      const entries = Array.from(event.dataTransfer.items, (item) => (item.webkitGetAsEntry ? item.webkitGetAsEntry() : null)), plain = Array.from(event.dataTransfer.files, (file) => ({ file, path: file.name }));
      if (entries.length === 1 && entries[0] && entries[0].isDirectory) this.take(await folderFiles(entries[0]), true); else this.take(plain, false);
    });
  }
  say(text) { this.said.hidden = !text; this.said.textContent = text; }
  fail(text) { this.err.hidden = !text; this.err.textContent = text; }
  async take(given, folder) {
    const files = folder ? given.filter(({ path }) => USEFUL_FILE.test(path.split('/').pop())) : given;
    this.fail('');
    if (!given.length) return;
    if (this.busy) { this.fail(t('files_busy')); return; }
    this.busy = true; this.button.disabled = true;
    try { this.use(await this.send(await prepared(files)), given.length - files.length); } catch (error) {
      this.say('');
      if (!(error instanceof UploadError)) console.warn(error);
      this.fail(error instanceof UploadError ? error.message : t('files_unreadable'));
    }
    this.busy = false; this.button.disabled = false;
  }
  async send(files) {
    const total = files.reduce((sum, { blob }) => sum + blob.size, 0);
    let done = 0, first = true;
    for (const { path, blob, note } of files) {
      for (let at = 0; at < blob.size || (at === 0 && blob.size === 0); at += UPLOAD_PART) {
        this.say(t('files_sending', { name: refText(path), done: (done / 1e6).toFixed(1), total: (total / 1e6).toFixed(1) }) + (note ? ' \u00b7 ' + note : ''));
        const data = base64Of(new Uint8Array(await blob.slice(at, at + UPLOAD_PART).arrayBuffer()));
        await this.ask('upload', { first, name: path, data });
        first = false; done += Math.min(UPLOAD_PART, blob.size - at);
      }
    }
    return { ...(await this.ask('uploaded', {})), size: total };
  }
  async ask(name, body) {
    const text = await this.bench.server[name]({ session: this.bench.session, ...body });
    if (typeof text !== 'string') throw new UploadError(t('lost'));
    const answer = JSON.parse(text);
    if (answer.error) throw new UploadError(answer.error);
    return answer;
  }
  // Make the files the pane's choice: the tokenizer, and with it the template that is among them; or the template alone.
  use({ ref, names, tokenizer, template, size, left_out: beside }, leftOut) {
    const { head } = this, put = (field) => { field.select.value = CUSTOM; field.custom.value = ref; };
    if (tokenizer) put(head.tokenizer);
    if (template && tokenizer) head.template.select.value = OWN;
    if (template && !tokenizer) put(head.template);
    const what = tokenizer && template ? 'files_both' : tokenizer ? 'files_tokenizer' : 'files_template';
    const { minutes } = this.bench.config.uploads, kept = minutes ? ' \u00b7 ' + t('files_private', { n: number(minutes) }) : '';
    const text = t(what, { names: refText(names.slice(0, 6).join(', ')) + (names.length > 6 ? ' \u2026 +' + (names.length - 6) : ''), size: sizeText(size) }) + (leftOut + beside.length ? ' \u00b7 ' + t('files_left_out', { n: leftOut + beside.length }) + (beside.length ? ': ' + refText(beside.slice(0, 4).join(', ')) : '') : '');
    this.used = { ref, text: text + ' \u00b7 ' + ref.slice(0, 15) + kept };  // two uploads may hold files of the same names
    head.chosen();
    head.onInput();
  }
}
const sizeText = (bytes) => (bytes < 1e5 ? number(bytes) + ' B' : (bytes / 1e6).toFixed(1) + ' MB');
const attachUploads = (head) => { head.uploads = new Uploads(head); };

const base64Of = (bytes) => {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
};
// The files of a dropped folder and of its additional_chat_templates.
const folderFiles = async (entry) => {
  const read = (folder) => new Promise((done, fail) => {
    const reader = folder.createReader(), all = [], next = () => reader.readEntries((found) => { if (!found.length) done(all); else { all.push(...found); next(); } }, fail);
    next();
  });
  const fileOf = (one, path) => new Promise((done, fail) => one.file((file) => done({ file, path }), fail)), found = [];
  for (const one of await read(entry)) {
    if (one.isFile) found.push(await fileOf(one, one.name));
    else if (one.name === 'additional_chat_templates') for (const other of await read(one)) if (other.isFile) found.push(await fileOf(other, one.name + '/' + other.name));
  }
  return found;
};
// What is sent of each file. Errors: UploadError, before anything is sent.
const prepared = async (files) => {
  if (!files.length) throw new UploadError(t('files_none_useful'));
  if (files.length > UPLOAD_FILES) throw new UploadError(t('files_too_many', { n: number(files.length), most: UPLOAD_FILES }));
  const made = [], taken = new Set();
  for (const { file, path: given } of files) {
    const path = ownName(given, taken);
    const blob = /\.gguf$/i.test(path) ? file.slice(0, await ggufMetadataEnd(file)) : file;
    made.push({ path, blob, note: blob.size < file.size ? t('files_metadata_only', { mb: (blob.size / 1e6).toFixed(1), all: (file.size / 1e6).toFixed(0) }) : '' });
  }
  const size = made.reduce((sum, { blob }) => sum + blob.size, 0);
  if (size > UPLOAD_MOST) throw new UploadError(t('files_too_large', { mb: (size / 1e6).toFixed(0), most: (UPLOAD_MOST / 1e6).toFixed(0) }));
  return made;
};
// Files from several folders may have one name; sent under it they would be one file.
const ownName = (name, taken) => {
  const [, stem, end] = /^(.*?)(\.[^./]*)?$/.exec(name);
  let own = name;
  for (let n = 2; taken.has(own); n++) own = stem + '-' + n + (end || '');
  taken.add(own);
  return own;
};
// Where the key-value part of a GGUF ends; the whole file (bounded) where that cannot be told: the server says what is wrong.
const GGUF_WIDTH = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const ggufMetadataEnd = async (file) => {
  const view = new DataView(await file.slice(0, UPLOAD_MOST).arrayBuffer()), whole = Math.min(file.size, UPLOAD_MOST);
  let at = 24;
  const u64 = () => { const n = Number(view.getBigUint64(at, true)); at += 8; return n; }, u32At = () => { const n = view.getUint32(at, true); at += 4; return n; };
  const skip = (n) => { at += n; if (at > view.byteLength) throw new RangeError('beyond the end'); }, text = () => skip(u64());
  const value = (kind) => {
    if (kind === 8) text();
    else if (kind === 9) { const inner = u32At(), n = u64(); if (inner === 8) for (let k = 0; k < n; k++) text(); else skip(n * GGUF_WIDTH[inner]); }
    else skip(GGUF_WIDTH[kind]);
  };
  try {
    if (view.getUint32(0, true) !== 0x46554747) return whole;
    for (let k = Number(view.getBigUint64(16, true)); k > 0; k--) { text(); value(u32At()); }
  } catch (error) { return whole; }
  return Number.isFinite(at) ? at : whole;
};
