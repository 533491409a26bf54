// Part of Bench: a scanned dataset - opening a scan's folder, and one of its rows as what the page is about. The server reads
// both; a row opens like any other state of the page, so that the browser's Back gives what was there before.

const SCAN_MS = 1000, RUNNING = new Set(['finding', 'running']);

class Datasets {
  datasetState() {
    return this.dataset || (this.dataset = { folder: stored('sessionStorage', 'dataset') || '', from: '', summary: null, said: '', error: '', busy: false, list: null, opening: '', rowError: '', scan: null, scanError: '', scanTell: null, began: '', following: false, asked: 0, version: 0, scans: null });
  }
  datasetChanged() { this.datasetState().version++; if (this.view === 'dataset') this.draw(true); }
  async askScans() {
    const held = this.datasetState();
    if (held.scans || !this.config.servers.typed) return;
    held.scans = [];
    const answer = await this.asked('datasets', {});
    held.scans = answer.error ? [] : answer.scans;
    this.datasetChanged();
  }
  // ---- a scan that is started here; one runs at a time, whichever page began it ----
  // The newest scan as the server tells of it; asked for as long as it runs and this view is open.
  async followScan() {
    const held = this.datasetState();
    if (held.following || !this.config.servers.typed) return;
    held.following = true;
    for (;;) {
      const answer = await this.asked('scan_state', {}), was = held.scan && held.scan.state;
      if (answer.error) break;
      held.scan = answer.scan;
      this.scanTold(held, was);
      if (!held.scan || !RUNNING.has(held.scan.state) || this.view !== 'dataset') break;
      await new Promise((done) => setTimeout(done, SCAN_MS));
    }
    held.following = false;
  }
  // What began here opens as soon as it is done.
  scanTold(held, was) {
    if (held.scanTell) held.scanTell();
    if (held.scan && held.scan.state === 'done' && (RUNNING.has(was) || held.began === held.scan.folder)) { held.began = ''; this.openDataset(held.scan.folder); }
  }
  async startScan(source, compares, limit) {
    const held = this.datasetState(), { fields, panes } = this.read();
    held.scanError = '';
    const answer = await this.asked('scan_start', { fields, panes: panes.slice(0, compares ? 2 : 1), source, b: compares, limit });
    if (answer.error) held.scanError = answer.error; else { held.scan = answer.scan; held.began = answer.scan.folder; }
    if (held.scanTell) held.scanTell();
    this.followScan();
  }
  async stopScan() {
    const held = this.datasetState(), answer = await this.asked('scan_stop', {});
    held.scanError = answer.error || '';
    if (held.scanTell) held.scanTell();
  }
  // A file of the browser's machine is sent in parts; its place on the server is then the source. '' where it failed.
  async sendDataset(file, said) {
    let path = '';
    for (let at = 0; at < file.size || at === 0; at += UPLOAD_PART) {
      const data = base64Of(new Uint8Array(await file.slice(at, at + UPLOAD_PART).arrayBuffer())), answer = await this.asked('scan_upload', { name: file.name, at, data });
      if (answer.error) { said('', answer.error); return ''; }
      said(t('files_sending', { name: refText(file.name), done: (answer.size / 1e6).toFixed(1), total: (file.size / 1e6).toFixed(1) }), '');
      path = answer.path;
    }
    said('', '');
    return path;
  }
  // What is typed stays there until it could be opened.
  async openDataset(folder) {
    const held = this.datasetState(), asked = (held.asked += 1);
    Object.assign(held, { folder, busy: true, error: '', said: '' });
    this.datasetChanged();
    const answer = await this.asked('dataset_open', { folder });
    if (asked !== held.asked) return false;
    held.busy = false;
    if (answer.error) held.error = answer.error;
    else { Object.assign(held, { folder: answer.folder, from: answer.folder, summary: answer.summary, list: null }); keep('sessionStorage', 'dataset', answer.folder); }
    this.datasetChanged();
    return !answer.error;
  }
  // A summary's file is read in the browser alone; its rows cannot be opened.
  async openSummaryFile(file) {
    const held = this.datasetState();
    Object.assign(held, { error: '', busy: false, asked: held.asked + 1 });
    try {
      if (file.size > MOST_SUMMARY) throw new Unreadable('dataset_file_large');
      const value = JSON.parse(await file.text());
      if (!isPlainObject(value) || ownValue(value, 'schema') !== 'scan-summary/1') throw new Unreadable('dataset_file_other');
      Object.assign(held, { summary: value, from: '', list: null });
    } catch (error) { held.error = show(file.name.slice(0, 80)).replaceAll('\u00b7', ' ') + ': ' + t(error instanceof Unreadable ? error.message : 'dataset_file_other', { limit: number(MOST_SUMMARY / 1000000) }); }
    this.datasetChanged();
  }
  async openRow(folder, file, row) {
    const held = this.datasetState(), asked = (held.asked += 1), name = rowName(file, row);
    Object.assign(held, { opening: name, rowError: '' });
    this.datasetChanged();
    const answer = await this.asked('dataset_row', { folder, file, row });
    if (asked !== held.asked) return false;
    held.opening = '';
    held.version++;
    if (answer.error) { held.rowError = name + ': ' + answer.error; this.datasetChanged(); return false; }
    this.putRow(answer, name);
    return true;
  }
  putRow(answer, name) {
    const inputs = { ...this.initial, ...answer.fields, ...answer.options, panes: '2' };
    for (const q of [0, 1]) {
      for (const [field, value] of Object.entries(answer.panes[Math.min(q, answer.panes.length - 1)])) inputs[field + q] = value;
      Object.assign(inputs, { ['template' + q]: inputs['template' + q] || OWN, ['template_text' + q]: '', ['template_edit' + q]: '', ['pane_profile' + q]: '' });
    }
    const state = { schema: STATE_SCHEMA, inputs, view: 'tokens', colour: 'alternate', example: null, pick: null, switches: { ids: FLOW.ids, split: false, safe: false, folded: this.folded } };
    this.notice = '';
    this.visit(state, '');
    this.apply(state);
    const note = answer.tools ? ' ' + t('dataset_tools') : '';
    this.datasetState().said = name;
    this.tell(t('dataset_row_open', { row: name }) + note);
  }
  // ?scan=ID&row=FILE:N, as a scan's report has it. The address says no more of it once it is open.
  async openScanLink() {
    const asked = new URLSearchParams(location.search), scan = asked.get('scan'), [, file, row] = /^([^]*):(\d{1,15})$/.exec(asked.get('row') || '') || [];
    if (!scan) return false;
    for (const name of ['scan', 'row']) asked.delete(name);
    const rest = asked.toString();
    history.replaceState(history.state, '', location.pathname + (rest ? '?' + rest : ''));
    this.open('dataset');
    if (!(await this.openDataset(scan.slice(0, 300)))) return false;
    return file === undefined ? true : this.openRow(this.datasetState().folder, file, +row);
  }
}
