// Part of Bench: opening a record that was pasted, chosen or dropped. The server reads and replays it; the page then opens
// on it like on any other state, and says what came of the replay beside the Record tab's buttons.

const RECORD_SCHEMA = /"schema"\s*:\s*"record\/\d+"/;

class Records {
  showOpenRecord() {
    const box = this.$('.ti-openrecord');
    this.recordError('');
    box.showModal();
    box.querySelector('textarea').focus();
  }
  recordError(text) {
    const line = this.$('.ti-openrecord .ti-err');
    line.hidden = !text; line.textContent = text;
  }
  async openRecordFile(file) {
    if (file.size > MOST_FILE) { this.recordError(t('record_too_large', { limit: number(MOST_FILE / 1000000) })); return; }
    this.openRecord(await file.text());
  }
  // What is typed in the dialog stays there until it could be opened.
  async openRecord(text) {
    const box = this.$('.ti-openrecord'), busy = box.querySelector('.ti-openbusy'), asked = (this.recordsAsked = (this.recordsAsked || 0) + 1);
    if (!RECORD_SCHEMA.test(text)) { this.recordError(t('record_garbled')); return; }
    this.recordError(''); busy.hidden = false;
    const said = await this.server.open_record({ session: this.session, text });
    if (asked !== this.recordsAsked) return;
    busy.hidden = true;
    if (typeof said !== 'string') { this.lost(true); return; }
    const answer = JSON.parse(said);
    if (answer.error) { this.recordError(answer.error); return; }
    box.querySelector('textarea').value = '';
    if (box.open) box.close();
    this.putRecord(answer);
  }
  putRecord(answer) {
    const inputs = { ...this.initial, ...answer.fields, ...answer.options, panes: '2' }, { template_text: text, ...pane } = answer.pane;
    for (const q of [0, 1]) {
      for (const [name, value] of Object.entries(pane)) inputs[name + q] = value;
      Object.assign(inputs, { ['template_text' + q]: text === null ? '' : text, ['template_edit' + q]: '', ['pane_profile' + q]: '', ['pane_arguments' + q]: '' });
      if (text !== null) inputs['template' + q] = PASTED;
    }
    const state = { schema: STATE_SCHEMA, inputs, view: 'record', colour: 'alternate', example: null, pick: null, switches: { ids: FLOW.ids, split: false, safe: false, folded: this.folded } };
    this.recordSaid = answer;
    this.notice = '';
    this.visit(state, '');
    this.apply(state);
  }
  // What came of the replay, as one line; null before a record was opened.
  recordLine() {
    const answer = this.recordSaid;
    if (!answer) return null;
    const stage = answer.stage ? t('stage_of_' + answer.stage) : '', line = show(answer.line).replaceAll('\u00b7', ' ');
    const node = el('span', answer.outcome === 'equal' ? 'ti-replayed' : 'ti-replayed ti-hot', t('record_opened', { digest: answer.digest.slice(0, 12) }) + ' ' + t('record_' + answer.outcome, { stage, line }) + answer.notes.map((note) => ' ' + show(note).replaceAll('\u00b7', ' ') + '.').join(''));
    node.setAttribute('role', 'status');
    return node;
  }
  listenRecords() {
    const box = this.$('.ti-openrecord'), input = box.querySelector('input[type=file]'), area = box.querySelector('textarea');
    input.addEventListener('change', () => { if (input.files.length) this.openRecordFile(input.files[0]); input.value = ''; });
    box.addEventListener('dragover', (event) => event.preventDefault());
    box.addEventListener('drop', (event) => { if (event.dataTransfer.files.length) { event.preventDefault(); this.openRecordFile(event.dataTransfer.files[0]); } });
    box.addEventListener('click', (event) => { if (event.target === box) box.close(); });
    area.addEventListener('keydown', (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.openRecord(area.value); } });
    box.querySelector('[data-act="open-record"]').addEventListener('click', () => this.openRecord(area.value));
  }
}
