// Ids one at a time: what a stream shows at each step, what it keeps back, and where a lone id decodes to something else.

const NEAR_STEPS = 6, MOST_STREAMED = 4000, MOST_STREAM_TEXT = 1500;
const unescaped = (text) => text.replace(/\\([nt\\])/g, (all, c) => ({ n: '\n', t: '\t', '\\': '\\' }[c]));

const buildStream = (bench, kept) => {
  const node = el('div', 'ti-tool'), out = el('div', 'ti-out'), area = textBox(2, 'stream_ids', kept.ids), stops = textBox(2, 'stream_stops', kept.stops), which = el('select');
  const ui = { node, filled: kept.filled ?? null, skip: Boolean(kept.skip), clean: Boolean(kept.clean) };
  ui.keep = () => ({ ids: area.value, stops: stops.value, filled: ui.filled, skip: ui.skip, clean: ui.clean, pane: which.value });
  bench.state.own.panes.forEach((_, q) => { const option = el('option', '', letter(q)); option.value = q; which.append(option); });
  which.dataset.in = 'stream_pane'; which.value = kept.pane || 0;
  stops.placeholder = t('stop_strings_hint');
  const asker = new Asker(bench, 'stream', () => ({
    ids: readIds(area.value), tokenizer: bench.read().panes[+which.value].tokenizer, skip_special_tokens: ui.skip,
    stop_strings: stops.value.split('\n').filter(Boolean).map(unescaped),
  }), (answer, busy, doing) => {
    stepper.node.hidden = !answer || Boolean(answer.error) || !answer.steps.length;
    if (!answerState(out, answer, busy, doing)) return;
    stepper.bound(answer.steps.length - 1);
    draw();
  });
  const draw = () => { const { answer } = asker; if (!answer || answer.error) return; drawStream(out, answer, ui, stepper); };
  const stepper = new Stepper('stream_at', node, () => { draw(); const { answer } = asker; if (answer && !answer.error && !stepper.timer) bench.tell(stepFacts(answer, stepOf(answer, stepper.at), stepper.at, stepper.at === stepper.last).join('; ')); });
  const fill = () => {
    const q = +which.value, pane = bench.state.own.panes[q], { pick } = bench, some = pick && pick.kind === 'tokens' && pick.q === q && pick.to - pick.from > 1 && !bench.state.safeOn;
    const [from, to] = some ? [pick.from, pick.to] : [0, pane.n];
    area.value = ui.filled = Array.from(pane.ids.subarray(from, Math.min(to, from + MOST_STREAMED))).join(' ');
    asker.soon(asker.answer ? 250 : 0);
  };
  area.addEventListener('input', () => asker.soon(250));
  stops.addEventListener('input', () => asker.soon(250));
  which.addEventListener('change', () => { stepper.stop(); stepper.at = 0; fill(); });
  const row = el('div', 'ti-askbar');
  Object.assign(ui, { take: fill, setSkip: (on) => { ui.skip = on; asker.soon(0); }, setClean: (on) => { ui.clean = on; draw(); } });
  row.append(labelled('stream_pane', which, 'ti-narrowask'), labelled('stream_ids', area, 'ti-wideask'), labelled('stop_strings', stops, 'ti-midask'));
  node.append(row, stepper.node, out);
  ui.refresh = () => { if (ui.filled === null || area.value === ui.filled) fill(); else asker.soon(300); };
  return ui;
};
// Numbers as numbers, everything else as it is: the server says what is no id.
const readIds = (text) => text.split(/[\s,;[\]]+/).filter(Boolean).map((word) => (/^\d{1,9}$/.test(word) ? +word : word));

const cleanedUp = (text, rules) => rules.reduce((made, [spaced, joined]) => made.split(spaced).join(joined), text);
const stepOf = (answer, k) => Object.fromEntries(answer.columns.map((name, i) => [name, answer.steps[k][i]]));
const columnOf = (answer, name) => { const at = answer.columns.indexOf(name); return answer.steps.map((row) => row[at]); };
const drawStream = (out, answer, ui, stepper) => {
  if (!answer.steps.length) { out.replaceChildren(el('p', 'ti-note', t('no_ids'))); return; }
  const focused = document.activeElement && out.contains(document.activeElement) ? document.activeElement.dataset.step : undefined, open = Boolean(out.querySelector('.ti-whole[open]'));
  const go = (k) => { stepper.stop(); stepper.to(k); };
  out.replaceChildren(...streamParts(answer, ui, stepper.at, go, open));
  if (focused !== undefined) { const node = out.querySelector('[data-step="' + stepper.at + '"]') || out.querySelector('[data-step]'); if (node) node.focus({ preventScroll: true }); }
};
const tail = (text) => (text.length > MOST_STREAM_TEXT ? '\u2026' + Array.from(text.slice(-MOST_STREAM_TEXT)).slice(1).join('') : text);
const streamParts = (answer, ui, k, go, open) => {
  const step = stepOf(answer, k), last = k === answer.steps.length - 1, before = columnOf(answer, 'shown').slice(0, k).join(''), box = el('p', 'ti-streamed');
  if (ui.clean) box.append(show(tail(cleanedUp(before + step.shown, answer.clean_up))));
  else box.append(show(tail(before)), el('ins', 'ti-put', show(step.shown)));
  if (step.held_for_stop) box.append(el('span', 'ti-waits', show(step.held_for_stop)));
  if (step.held) box.append(el('span', 'ti-heldbytes', spacedHex(step.held)));
  if (last && answer.stopped_by) box.append(el('del', 'ti-taken', '\u2702' + show(answer.stopped_by)));
  return [el('p', 'ti-key', t('stream_shows')), box, el('p', 'ti-facts', stepFacts(answer, step, k, last).join(' \u00b7 ')), stepTable(answer, k, go), ...cutParts(answer, go), wrongLine(answer, go), wholeTexts(answer, open)];
};
const stepFacts = (answer, step, k, last) => {
  const facts = [t('step_of', { k: k + 1, n: number(answer.steps.length) }), t('id') + ' ' + step.id + ' ' + show(step.piece)];
  if (step.held) facts.push('\u23f3 ' + t('held_back', { bytes: spacedHex(step.held) }));
  if (step.held_for_stop) facts.push('\u23f3 ' + t('held_for_stop', { text: show(step.held_for_stop) }));
  if (step.alone_is_wrong) facts.push('\u26a0 ' + t('alone_shows', { text: show(step.alone) || t('nothing') }));
  if (step.skipped) facts.push(t('skipped'));
  if (last && answer.stopped_by) facts.push('\u2702 ' + t('stopped_by', { text: show(answer.stopped_by) }));
  if (last && answer.leftover) facts.push('\u26a0 ' + t('unfinished', { bytes: spacedHex(answer.leftover) }));
  return facts;
};
const stepLink = (k, go, cls) => { const node = button('ti-link ti-at ' + (cls || ''), '#' + k, () => go(k)); node.dataset.step = k; return node; };
const wrongLine = (answer, go) => {
  const wrong = columnOf(answer, 'alone_is_wrong').flatMap((on, k) => (on ? [k] : [])), line = el('p', 'ti-facts', t('alone_wrong_at', { n: number(wrong.length) }) + ' ');
  for (const k of wrong.slice(0, 24)) line.append(button('ti-link', '#' + k, () => go(k)), ' ');
  if (wrong.length > 24) line.append('\u2026');
  return line;
};
// What decode() of all ids gives, and what two options make of it.
const wholeTexts = (answer, open) => {
  const box = el('details', 'ti-whole'), node = table('', [t('decode_call'), t('text')]), plain = answer.with_special_tokens;
  const row = (call, text, same) => node.append(rowOf([el('code', '', call), same ? el('span', 'ti-dim', '\u2713 ' + t('no_change')) : show(tail(text))]));
  row('decode(ids)', plain, false);
  row('decode(ids, skip_special_tokens=True)', answer.without_special_tokens, answer.without_special_tokens === plain);
  row('clean_up_tokenization_spaces=True', answer.cleaned, !answer.clean_up_changes);
  box.open = open;
  box.append(el('summary', 'ti-key', t('whole_texts')), wide(node), el('p', 'ti-dim', t('clean_up_note')));
  return box;
};
const stepTable = (answer, k, go) => {
  const node = table('', ['#', t('id'), t('piece'), t('bytes'), t('becomes_visible'), t('kept_back'), 'decode([id])'], 'ti-steptable'), n = answer.steps.length, from = Math.max(0, Math.min(k - NEAR_STEPS, n - 2 * NEAR_STEPS - 1));
  for (let i = from; i < Math.min(n, from + 2 * NEAR_STEPS + 1); i++) {
    const step = stepOf(answer, i), alone = el('span', step.alone_is_wrong ? 'ti-hot' : '', (step.alone_is_wrong ? '\u26a0 ' : '') + show(step.alone));
    const kept = [step.held && spacedHex(step.held), step.held_for_stop && '\u201c' + show(step.held_for_stop) + '\u201d', step.skipped && t('skipped')].filter(Boolean).join(' ');
    const row = rowOf([stepLink(i, go), String(step.id), show(step.piece), spacedHex(step.bytes) || t('no_bytes'), show(step.shown), kept, alone], (i === k ? 'ti-now' : '') + (answer.cut.some((part) => part.index === i) ? ' ti-incut' : ''));
    if (i === k) row.setAttribute('aria-current', 'step');
    node.append(row);
  }
  return wide(node);
};
// The stop string across the tokens that it lies in.
const cutParts = (answer, go) => {
  if (!answer.cut.length) return [];
  const line = el('div', 'ti-seq');
  for (const part of answer.cut) {
    const chip = el('span', 'ti-seqtok ti-cuttok');
    chip.append(el('span', '', (part.before ? '\u2026' : '') + '\u2702' + show(part.part)), button('ti-link ti-seqid', '#' + part.index, () => go(part.index)));
    line.append(chip);
  }
  return [el('p', 'ti-key', t('stop_lies_in', { n: answer.cut.length, text: show(answer.stopped_by) })), line];
};

const streamTools = (bench, host, put) => {
  const ui = () => bench.kept.stream, kept = (bench.kept && bench.kept.stream) || {};
  host.append(bench.check('skip_special_tokens', Boolean(kept.skip), (on) => ui().setSkip(on)), bench.check('clean_up', Boolean(kept.clean), (on) => ui().setClean(on)));
  put('take_selection', () => ui().take());
};

VIEW_MODELS.stream = { panel: keptPanel('stream', buildStream), tools: streamTools };
