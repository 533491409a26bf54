// The training view: labels, the turn-by-turn prefix, and new special tokens; one part at a time, each in its own file.

const TRAINING_PARTS = ['labels', 'prefix', 'vocabulary'];
const buildTraining = (bench) => {
  const node = el('div', 'ti-tool'), parts = el('div'), host = el('div'), built = {}, makers = { labels: buildLabels, prefix: buildPrefix, vocabulary: buildVocabulary };
  const ui = { node, keep: () => ({}), built };
  const part = () => { const { part: chosen } = viewOptions(bench, 'training', { part: 'labels' }); return TRAINING_PARTS.includes(chosen) ? chosen : 'labels'; };
  node.append(parts, host);
  ui.refresh = () => {
    const now = part();
    keepFocus(parts, () => parts.replaceChildren(choiceRow('training_parts', TRAINING_PARTS.map((name) => [name, t('training_' + name)]), now, (name) => { setViewOptions(bench, 'training', { part: name }); ui.refresh(); })));
    if (!built[now]) built[now] = makers[now](bench);
    if (host.firstChild !== built[now].node) host.replaceChildren(built[now].node);
    built[now].refresh();
  };
  return ui;
};
const trainingPart = (bench, name) => { const ui = bench.kept && bench.kept.training; return ui && ui.built[name] ? ui.built[name] : null; };
// What the part has of a pane; null where there is none yet.
const trainingOf = (name, make) => (bench, q) => { const ui = trainingPart(bench, name), pane = ui && ui.answer && !ui.answer.error && ui.answer.panes[q]; return pane && !pane.error ? make(pane) : null; };

VIEW_MODELS.training = {
  panel: keptPanel('training', buildTraining),
  exports: [
    ['labels_python', 'labels.py', 'text/x-python', trainingOf('labels', (pane) => 'input_ids = ' + listText(pane.input_ids) + '\nlabels = ' + listText(labelsOf(pane)) + '\n')],
    ['labels_json', 'labels.json', 'application/json', trainingOf('labels', (pane) => JSON.stringify({ schema: pane.schema, mode: pane.mode, source: pane.source, input_ids: pane.input_ids, labels: labelsOf(pane), alarms: pane.alarms }))],
    ['prefix_json', 'prefix.json', 'application/json', trainingOf('prefix', (pane) => JSON.stringify(pane, null, 1))],
    ['prefix_keys', 'block-keys.txt', 'text/plain', trainingOf('prefix', (pane) => pane.keys.join('\n') + '\n')],
  ],
};
const listText = (values) => '[' + values.join(', ') + ']';
