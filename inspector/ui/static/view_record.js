// The record of each pane as JSON text; asked for when the view is opened. Its file is canonical JSON (RFC 8785), to the
// byte what the command line writes.

const recordLines = (text) => text.split('\n').map((line, k) => ({ gutter: String(k + 1), parts: [['', line || ' ']] }));

const askRecord = async (bench) => {
  const { state } = bench;
  if (bench.recordInFlight) { bench.recordAgain = true; return; }
  bench.recordInFlight = true;
  if (!state.records.some(Boolean)) { state.records = state.panes.map(() => t('computing')); bench.draw(false); }
  const answer = await bench.server.record({ session: bench.session, ...bench.readShown() });
  bench.recordInFlight = false;
  if (typeof answer === 'string') state.records = JSON.parse(answer).records; else bench.lost(true);
  if (bench.view === 'record') bench.draw(true);
  if (bench.recordAgain) { bench.recordAgain = false; askRecord(bench); }
};

// RFC 8785: keys in the order of their UTF-16 units, which is how this language sorts; numbers and texts as it writes them.
const canonicalJson = (value) => {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) return '[' + value.map(canonicalJson).join(',') + ']';
  return '{' + Object.keys(value).sort().map((key) => JSON.stringify(key) + ':' + canonicalJson(value[key])).join(',') + '}';
};
const canonicalRecord = (text) => { try { return canonicalJson(JSON.parse(text)); } catch (error) { return null; } };
const downloadRecord = (bench, q) => {
  const text = canonicalRecord(bench.state.records[q] || '');
  if (text === null) bench.tellCopied('export_nothing'); else saveFile('record-' + letter(q).toLowerCase() + '.json', text, 'application/json');
};

VIEW_MODELS.record = {
  gutter: 54, model: (state, cols) => linesModel(state.records.map(recordLines), cols, {}), opened: askRecord, arrived: askRecord,
  copies: { key: 'copy_json', text: (bench, q) => bench.state.records[q] },
  tools: (bench, host, button) => {
    bench.eachPane(button, 'record_download', (q) => downloadRecord(bench, q));
    button('record_open', () => bench.showOpenRecord()).setAttribute('aria-haspopup', 'dialog');
    const line = bench.recordLine();
    if (line) host.append(line);
  },
};
