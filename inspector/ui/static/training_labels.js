// Which tokens the loss is computed on: as text and as ids, with -100 where it is not, and the alarms. One column a pane.

const LABELS = { mode: 'assistant_only', tag: false, length: '', as: 'text' };
const MOST_LABEL_RUNS = 200, MOST_RUN_TEXT = 3000, MOST_LABEL_IDS = 400;

const labelsOf = (pane) => { const out = new Array(pane.input_ids.length).fill(-100); for (const { start, end, trained } of pane.runs) if (trained) for (let i = start; i < end; i++) out[i] = pane.input_ids[i]; return out; };
const buildLabels = (bench) => {
  const node = el('div', 'ti-tool'), bar = el('div', 'ti-askbar'), choices = el('div', 'ti-choicebar'), out = el('div', 'ti-out');
  const ui = { node, answer: null, shown: [] }, options = () => viewOptions(bench, 'labels', LABELS), set = (values, ms) => { setViewOptions(bench, 'labels', values); refresh(ms); };
  const length = textLine('labels_length', '', 'labels_length_hint'), tag = bench.check('labels_tag', false, (on) => set({ tag: on }));
  length.inputMode = 'numeric';
  length.addEventListener('input', () => set({ length: length.value }, 250));
  bar.append(choices, labelled('labels_length', length, 'ti-midask'), tag);
  node.append(bar, out);
  const asker = new Asker(bench, 'labels', () => {
    if (!bench.slots.every((slot) => slot.answered)) return null;
    const { fields, panes } = bench.readShown(), chosen = options();
    return { at: bench.at, fields, panes, mode: chosen.mode, max_length: chosen.length, tag_only: chosen.tag };
  }, (answer, busy, doing) => { ui.answer = answer; if (answerState(out, answer, busy, doing)) draw(); });
  const draw = () => { if (ui.answer && !ui.answer.error) keepFocus(out, () => out.replaceChildren(labelColumns(bench, ui, options().as))); };
  ui.toToken = (q, token) => {
    if (options().as !== 'ids') set({ as: 'ids' });
    ui.shown[q] = Math.max(ui.shown[q] || 0, token + 50);
    draw();
    const chip = out.querySelector('[data-chip="' + q + ' ' + token + '"]');
    if (chip) { chip.scrollIntoView({ block: 'center' }); chip.focus({ preventScroll: true }); }
  };
  const refresh = (ms) => {
    const chosen = options();
    keepFocus(choices, () => choices.replaceChildren(
      choiceRow('labels_mode', ['assistant_only', 'last_turn', 'all'].map((name) => [name, t('mode_' + name)]), chosen.mode, (mode) => set({ mode })),
      choiceRow('labels_as', ['text', 'ids'].map((name) => [name, t('labels_as_' + name)]), chosen.as, (as) => set({ as })),
    ));
    if (document.activeElement !== length) length.value = chosen.length;
    tag.firstChild.checked = chosen.tag;
    draw();
    asker.soon(ms || 0);
  };
  ui.refresh = () => refresh();
  return ui;
};
const labelColumns = (bench, ui, as) => {
  const columns = el('div', 'ti-columns');
  ui.answer.panes.forEach((pane, q) => {
    const column = el('section'), title = paneTitle(bench, q);
    column.setAttribute('aria-label', letter(q) + ' ' + t('training_labels'));
    column.append(el('h2', 'ti-h2', letter(q) + (title ? ' \u00b7 ' + showButSpaces(title) : '')));
    if (pane.error) column.append(alertLine(pane.error)); else column.append(labelFacts(pane), alarmList(bench, ui, pane, q), as === 'ids' ? labelIds(ui, pane, q) : labelText(pane));
    columns.append(column);
  });
  if (numberIn(bench.field('context_window').value) !== null) { const note = el('p', 'ti-dim', t('labels_no_window')); const host = el('div'); host.append(note, columns); return host; }
  return columns;
};
const labelFacts = (pane) => {
  const line = el('p'), share = pane.num_tokens ? (100 * pane.num_trained) / pane.num_tokens : 0, meter = el('span', 'ti-labelmeter'), full = el('span', 'ti-learned');
  full.style.width = share + '%'; meter.append(full); meter.setAttribute('aria-hidden', 'true');
  line.append(el('b', '', t('labels_counts', { n: number(pane.num_trained), total: number(pane.num_tokens), share: share.toFixed(1) })), ' ', meter, ' ', el('span', 'ti-dim', t('mask_from_' + (pane.source || 'none'))));
  return line;
};
const alarmList = (bench, ui, pane, q) => {
  if (!pane.alarms.length) return el('p', '', '\u2713 ' + t('alarms_none'));
  const list = el('ol', 'ti-broken');
  pane.alarms.forEach((alarm, k) => {
    const item = el('li', 'ti-hot'), acts = el('span', 'ti-findacts');
    item.append('\u26a0 ' + t('alarm_' + alarm.kind), ' ', el('span', 'ti-dim', said(alarm.why)), ' ', acts);
    if (alarm.path) acts.append(focusable(placeLink(alarm.path, () => jumpToPath(bench, q, alarm.path, null)), 'alarm ' + q + ' ' + k + ' path'));
    if (alarm.token !== null && alarm.token < pane.num_tokens) acts.append(focusable(placeLink(t('finding_token', { n: number(alarm.token) }), () => ui.toToken(q, alarm.token)), 'alarm ' + q + ' ' + k + ' token'));
    list.append(item);
  });
  return list;
};
const labelText = (pane) => {
  const box = el('p', 'ti-labeltext'); box.tabIndex = 0;
  const clipped = (text) => (text.length > MOST_RUN_TEXT ? [text.slice(0, MOST_RUN_TEXT / 2), text.slice(-MOST_RUN_TEXT / 2)] : [text]);
  const add = (from, to) => { for (const { start, end, trained, text } of pane.runs.slice(from, to)) {
    const node = el('span', trained ? 'ti-learned' : 'ti-unlearned'), [head, tail] = clipped(text);
    node.title = t(trained ? 'label_trained' : 'label_untrained') + ', ' + t('labels_tokens', { from: start, to: end - 1 });
    node.append(el('sup', 'ti-runmark', (trained ? '\u25b8' : '\u2013') + number(end - start)), lineBreaks(head));
    if (tail) node.append(el('span', 'ti-dim', ' \u2026 '), lineBreaks(tail));
    box.append(node);
  } };
  add(0, MOST_LABEL_RUNS);
  if (pane.runs.length <= MOST_LABEL_RUNS) return box;
  const host = el('div'), more = moreButton(pane.runs.length - MOST_LABEL_RUNS, () => { more.remove(); add(MOST_LABEL_RUNS); });
  host.append(box, more);
  return host;
};
// Line feeds are seen and break the line.
const lineBreaks = (text) => { const host = document.createDocumentFragment(), lines = text.split('\n'); lines.forEach((line, k) => { host.append(showButSpaces(line)); if (k < lines.length - 1) host.append(el('span', 'ti-dim', '\u23ce'), '\n'); }); return host; };
const labelIds = (ui, pane, q) => {
  const host = el('div'), flow = el('div', 'ti-seq ti-labelids'), labels = labelsOf(pane);
  const add = (from, to) => { for (let i = from; i < Math.min(to, labels.length); i++) {
    const chip = el('span', 'ti-seqtok ' + (labels[i] === -100 ? 'ti-unlearned' : 'ti-learned')), id = pane.input_ids[i];
    chip.append(el('span', '', pieceOf(pane.pieces, id) || '\u00a0'), el('span', 'ti-seqid', String(id)), el('span', 'ti-seqid ti-label', String(labels[i])));
    chip.title = '#' + i + ' \u00b7 id ' + id + ' \u00b7 label ' + labels[i];
    chip.tabIndex = -1; chip.dataset.chip = q + ' ' + i;
    flow.append(chip);
  } };
  const first = Math.max(MOST_LABEL_IDS, ui.shown[q] || 0);
  add(0, first);
  host.append(el('p', 'ti-dim', t('labels_chip')), flow);
  if (labels.length > first) { const more = moreButton(labels.length - first, () => { more.remove(); ui.shown[q] = first + 4000; add(first, first + 4000); }); host.append(more); }
  return host;
};

SENTENCES.push(
  [/^0 of (\d+) tokens are trained: ([^]*)$/, 'said_alarm_none', ['n', 'why*']],
  [/^what is trained lies beyond max_length$/, 'said_alarm_beyond', []],
  [/^the template has no {% generation %} tag$/, 'said_alarm_no_tag', []],
  [/^no {% generation %} block was reached$/, 'said_alarm_not_reached', []],
  [/^no assistant's turn was found$/, 'said_alarm_no_turn', []],
  [/^(\d+) of (\d+) trained tokens lie beyond (\d+)$/, 'said_alarm_cut', ['n', 'total', 'length']],
  [/^([^]*) ends the turn and is not trained$/, 'said_alarm_stop', ['piece']],
  [/^the template writes no token that ends the turn$/, 'said_alarm_no_stop', []],
  [/^the role's name is trained$/, 'said_alarm_role', []],
  [/^byte (\d+) begins the answer inside the token$/, 'said_alarm_seam', ['n']],
  [/^the pad token is the EOS token: a collator that masks padding by its id masks (\d+) trained EOS$/, 'said_alarm_pad_is_eos', ['n']],
  [/^there is no pad token, and EOS is used for it: a collator that masks padding by its id masks (\d+) trained EOS$/, 'said_alarm_no_pad', ['n']],
  [/^the template does not write it$/, 'said_alarm_unwritten', []],
  [/^the template strips what stands in <think>$/, 'said_alarm_stripped', []],
);
