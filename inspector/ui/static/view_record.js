// The record of each pane as JSON text; asked for when the view is opened.

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
const downloadRecord = (bench, q) => saveFile('inspection-' + letter(q).toLowerCase() + '.json', bench.state.records[q], 'application/json');

VIEW_MODELS.record = {
  gutter: 54, model: (state, cols) => linesModel(state.records.map(recordLines), cols, {}), opened: askRecord, arrived: askRecord,
  copies: { key: 'copy_json', text: (bench, q) => bench.state.records[q] },
  tools: (bench, _host, button) => bench.eachPane(button, 'download_json', (q) => downloadRecord(bench, q)),
};
