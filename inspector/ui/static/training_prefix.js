// Turn by turn: is what is sent a prefix of what is sent next, where does it part and who did it, and what a cache can reuse.

const PREFIX = { block: '16', revision: '', adapter: 'none' }, BLOCKS_OF_CACHE = ['1', '16', '128'], MOST_BLOCK_KEYS = 24;

const buildPrefix = (bench) => {
  const node = el('div', 'ti-tool'), bar = el('div', 'ti-askbar'), out = el('div', 'ti-out');
  const ui = { node, answer: null }, options = () => viewOptions(bench, 'prefix', PREFIX), boxes = {};
  for (const [name, cls] of [['block', 'ti-newask'], ['revision', 'ti-midask'], ['adapter', 'ti-newask']]) {
    const box = (boxes[name] = textLine('prefix_' + name, '', 'prefix_' + name + '_hint'));
    box.addEventListener('input', () => { setViewOptions(bench, 'prefix', { [name]: box.value }); asker.soon(250); });
    bar.append(labelled('prefix_' + name, box, cls));
  }
  boxes.block.inputMode = 'numeric';
  node.append(bar, out);
  const asker = new Asker(bench, 'prefix', () => {
    if (!bench.slots.every((slot) => slot.answered)) return null;
    const { fields, panes } = bench.readShown(), chosen = options();
    return { at: bench.at, fields, panes, block_size: chosen.block, model_revision: chosen.revision, adapter: chosen.adapter };
  }, (answer, busy, doing) => { ui.answer = answer; if (answerState(out, answer, busy, doing)) draw(); });
  const draw = () => { if (ui.answer && !ui.answer.error) keepFocus(out, () => out.replaceChildren(prefixColumns(bench, ui.answer))); };
  ui.refresh = () => {
    const chosen = options();
    for (const [name, box] of Object.entries(boxes)) if (document.activeElement !== box) box.value = chosen[name];
    draw();
    asker.soon(asker.answer ? 400 : 0);
  };
  return ui;
};
const prefixColumns = (bench, answer) => {
  const columns = el('div', 'ti-columns');
  answer.panes.forEach((pane, q) => {
    const column = el('section'), title = paneTitle(bench, q);
    column.setAttribute('aria-label', letter(q) + ' ' + t('training_prefix'));
    column.append(el('h2', 'ti-h2', letter(q) + (title ? ' \u00b7 ' + showButSpaces(title) : '')));
    if (pane.error) column.append(alertLine(pane.error)); else column.append(prefixSum(pane), stepsTable(bench, q, pane), keysBox(bench, pane));
    columns.append(column);
  });
  return columns;
};
const comparedSteps = (pane) => pane.steps.filter((step) => step.is_prefix !== null);
const prefixSum = (pane) => {
  const steps = comparedSteps(pane), broken = steps.filter((step) => !step.is_prefix), again = steps.reduce((sum, step) => sum + step.tokens - step.reused['16'], 0), line = el('p', broken.length ? 'ti-hot' : '');
  line.textContent = !steps.length ? t('prefix_nothing') : broken.length ? '\u26a0 ' + t('prefix_broken', { n: broken.length, of: steps.length, again: number(again) }) : '\u2713 ' + t('prefix_whole', { of: steps.length });
  const host = el('div');
  host.append(line, ...(pane.left_out ? [el('p', 'ti-dim', t('prefix_left_out', { n: number(pane.left_out) }))] : []));
  return host;
};
const stepsTable = (bench, q, pane) => {
  const node = table('', [t('prefix_step'), t('col_tokens'), t('prefix_next'), ...BLOCKS_OF_CACHE.map((size) => t('prefix_reused', { n: size }))], 'ti-steps2');
  pane.steps.forEach((step, k) => {
    const name = t(step.asks ? 'prefix_asks' : 'prefix_answered', { n: step.messages });
    if (step.error) { const row = rowOf([name, '', el('span', 'ti-hot', show(step.error).replaceAll('\u00b7', ' '))]); row.lastChild.colSpan = 4; node.append(row); return; }
    const verdict = step.is_prefix === null ? el('span', 'ti-dim', t('prefix_last')) : el('b', step.is_prefix ? '' : 'ti-hot', step.is_prefix ? '\u2713 ' + t('prefix_yes') : '\u2717 ' + t('prefix_no', { n: number(step.parts_at.token) }));
    node.append(rowOf([name, number(step.tokens), verdict, ...BLOCKS_OF_CACHE.map((size) => (step.reused[size] === null ? '' : reusedCell(step.reused[size], step.tokens)))], step.is_prefix === false ? 'ti-forged' : ''));
    if (step.parts_at) { const row = rowOf([partingOf(bench, q, step, k)], 'ti-partingrow'); row.firstChild.colSpan = 6; node.append(row); }
  });
  return wide(node);
};
const reusedCell = (n, of) => {
  const cell = el('span', 'ti-reused'), bar = el('span', 'ti-reusedbar'), full = el('span');
  full.style.width = (of ? (100 * n) / of : 0) + '%'; bar.append(full); bar.setAttribute('aria-hidden', 'true');
  cell.append(number(n), bar); cell.title = t('prefix_share', { n: number(n), of: number(of) });
  return cell;
};
// What this step has where the next one has something else, and who wrote either.
const partingOf = (bench, q, step, k) => {
  const box = el('div', 'ti-partsat');
  for (const side of ['this', 'next']) {
    const { text, line, path, kind } = step.parts_at[side], row = el('p');
    row.append(el('span', 'ti-key', t(side === 'this' ? 'prefix_this' : 'prefix_next_has') + ' '), el('code', side === 'this' ? 'ti-taken' : 'ti-put', text ? show(text) : t('nothing')), ' \u2190 ');
    if (path) row.append(focusable(placeLink(path, () => jumpToPath(bench, q, path, null)), 'prefix ' + q + ' ' + k + side + ' path'), ' ');
    if (line) row.append(focusable(placeLink(t('template_line', { n: line }), () => jumpToLine(bench, q, line)), 'prefix ' + q + ' ' + k + side + ' line'));
    if (!path && !line) row.append(el('span', 'ti-dim', kind || t('prefix_end')));
    box.append(row);
  }
  return box;
};
const keysBox = (bench, pane) => {
  const box = el('details', 'ti-box'), list = el('ol', 'ti-keys'), add = (from, to) => { for (const key of pane.keys.slice(from, to)) list.append(el('li', '', key)); };
  box.append(el('summary', 'ti-boxhead', t('prefix_keys', { n: number(pane.keys.length), size: pane.block_size })), el('p', 'ti-dim', t('prefix_keys_about')), list);
  add(0, MOST_BLOCK_KEYS);
  if (pane.keys.length > MOST_BLOCK_KEYS) { const more = moreButton(pane.keys.length - MOST_BLOCK_KEYS, () => { more.remove(); add(MOST_BLOCK_KEYS, MOST_BLOCK_KEYS + 2000); }); box.append(more); }
  if (pane.keys.length) box.append(button('ti-btn', t('copy_keys'), () => bench.copy(pane.keys.join('\n'))));
  return box;
};
