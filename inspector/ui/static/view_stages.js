// The four stages of a stretch of text, in every pane's tokenizer: normalizer, pieces, model steps, insertions; and a small
// trainer that learns merges from the same text.

const MOST_STAGE_PIECES = 200, OPEN_DEPTH = 3, NEAR_PARTS = 5;

const buildStages = (bench, kept) => {
  const node = el('div', 'ti-tool'), area = textBox(3, 'stages_text', kept.text), bar = el('div', 'ti-askbar'), out = el('div', 'ti-out'), lesson = trainer(bench, () => exactText(area, ui.filled), kept.lesson || {});
  const ui = { node, filled: kept.filled ?? null };
  const asker = new Asker(bench, 'stages', () => ({ text: exactText(area, ui.filled), tokenizers: [...new Set(bench.read().panes.map((pane) => pane.tokenizer))] }), (...given) => drawStages(bench, out, ...given));
  ui.keep = () => ({ text: area.value, filled: ui.filled, lesson: lesson.keep() });
  const fill = () => { area.value = ui.filled = selectedText(bench); asker.soon(0); };
  ui.take = fill;
  area.addEventListener('input', () => asker.soon(250));
  bar.append(labelled('stages_text', area, 'ti-wideask'));
  node.append(bar, out, lesson.node);
  ui.refresh = () => { if (ui.filled === null || isAsPut(area, ui.filled)) area.value = ui.filled = selectedText(bench); asker.soon(asker.answer ? 300 : 0); };
  return ui;
};

// One column a tokenizer; panes that share one share its column.
const drawStages = (bench, out, answer, busy, doing) => {
  if (!answerState(out, answer, busy, doing)) return;
  const columns = el('div', answer.panes.length > 1 ? 'ti-columns' : ''), of = bench.read().panes;
  answer.panes.forEach((pane) => {
    const column = el('section'), name = of.flatMap(({ tokenizer }, q) => (tokenizer === pane.ref ? [letter(q)] : [])).join(', ') || refText(pane.ref);
    column.setAttribute('aria-label', name);
    column.append(el('h2', 'ti-h2', name + ' \u00b7 ' + refText(pane.error ? pane.ref : pane.tokenizer) + (pane.error ? '' : ' \u00b7 ' + stageCount(pane))));
    if (pane.error) column.append(alertLine(pane.error)); else column.append(...stageBoxes(pane));
    columns.append(column);
  });
  out.replaceChildren(columns);
};
// What the text itself costs, and apart from it what the post-processor puts around it.
const stageCount = (pane) => {
  const put = [...pane.inserted_before, ...pane.inserted_after], own = t('count_tokens', { n: number(pane.input_ids.length - put.length) });
  return own + (put.length ? ' \u00b7 ' + t('count_inserted', { n: number(put.length), pieces: put.map(({ piece }) => show(piece)).join(' ') }) : '');
};
const stageBoxes = (pane) => {
  const box = (n, key, ...parts) => { const node = el('div', 'ti-box'), head = el('p', 'ti-boxhead'); head.append(el('b', '', n + ' ' + t(key))); node.append(head, ...parts); return node; };
  return [
    box(1, 'stage_normalizer', ...normalizerParts(pane)),
    box(2, 'stage_pieces', ...piecesParts(pane)),
    box(3, 'stage_model', ...modelParts(pane)),
    box(4, 'stage_post', ...postParts(pane)),
  ];
};

// The text with what was taken away and what was put there, then every change by code point.
const normalizerParts = (pane) => {
  const line = el('p', 'ti-flowtext'), rows = [];
  for (const section of pane.sections) {
    if (section.added_token) { line.append(tokenChip(section.added_token.piece, section.added_token.id, 'ti-addedtok')); continue; }
    const chars = Array.from(section.text);
    let at = 0;
    for (const rewrite of section.rewrites) {
      line.append(show(chars.slice(at, rewrite.start).join('')));
      if (rewrite.before) line.append(el('del', 'ti-taken', show(rewrite.before)));
      if (rewrite.after) line.append(el('ins', 'ti-put', show(rewrite.after)));
      at = rewrite.end;
      rows.push(rewrite);
    }
    line.append(show(chars.slice(at).join('')));
  }
  if (!rows.length) return [line, el('p', 'ti-dim', t('normalizer_nothing'))];
  const groups = new Map(), points = (row, side) => (row['points_' + side].join(', ') || t('nothing')) + (row['more_' + side] ? ' \u2026 +' + row['more_' + side] : '');
  for (const row of rows) { const key = row.before + '\u0000' + row.after, group = groups.get(key) || { row, n: 0 }; group.n++; groups.set(key, group); }
  const node = table('', [t('change_before'), t('change_after'), t('change_times')], 'ti-changes');
  for (const { row, n } of [...groups.values()].slice(0, MOST_STAGE_PIECES)) node.append(rowOf([points(row, 'before'), points(row, 'after'), number(n)]));
  return [line, wide(node)];
};
// The text of a piece, out of the normalised text where the pre-tokenizer spells it otherwise (byte level).
const pieceText = (section, piece) => Array.from(section.normalized).slice(piece.start, piece.end).join('') || piece.text;
const piecesParts = (pane) => {
  const line = el('div', 'ti-seq'), count = pane.sections.reduce((sum, section) => sum + section.pieces.length, 0);
  let k = 0;
  for (const section of pane.sections) {
    if (section.added_token) line.append(tokenChip(section.added_token.piece, section.added_token.id, 'ti-addedtok'));
    for (const piece of section.pieces) { const chip = pieceChip(pieceText(section, piece), k++); if (piece.text !== pieceText(section, piece)) chip.title = show(piece.text); line.append(chip); }
  }
  return [line, el('p', 'ti-dim', t('pieces_count', { n: number(count) }))];
};
const modelParts = (pane) => {
  const list = el('div', 'ti-pieces'), all = pane.sections.flatMap((section) => (section.added_token ? [[null, section.added_token]] : section.pieces.map((piece) => [section, piece])));
  const add = (from, to) => { for (const [section, piece] of all.slice(from, to)) list.append(section ? pieceBox(section, piece) : tokenLine(piece)); };
  add(0, MOST_STAGE_PIECES);
  if (!all.length) return [el('p', 'ti-dim', t('nothing'))];
  const inexact = pane.exact ? [] : [el('p', 'ti-hot', '\u26a0 ' + t('stages_inexact'))];
  if (all.length <= MOST_STAGE_PIECES) return [list, ...inexact];
  const more = moreButton(all.length - MOST_STAGE_PIECES, () => { more.remove(); add(MOST_STAGE_PIECES); });
  return [list, more, ...inexact];
};
const tokenLine = (token) => { const line = el('div', 'ti-pieceline'); line.append(tokenChip(token.piece, token.id, 'ti-addedtok'), el('span', 'ti-dim', t('matched_whole'))); return line; };
const pieceBox = (section, piece) => {
  const steps = piece.steps.length > 0, box = el(steps ? 'details' : 'div', 'ti-piecebox'), head = el(steps ? 'summary' : 'div', 'ti-pieceline');
  const about = steps ? t('steps_' + piece.algorithm, { n: number(piece.steps.length) }) : piece.note ? said(piece.note) : piece.tokens.length > 1 ? t('no_merge', { n: number(piece.tokens.length) }) : t('no_steps');
  head.append(pieceChip(pieceText(section, piece), 0), el('span', 'ti-dim', '\u2192'), ...piece.tokens.map((token) => tokenChip(token.piece, token.id, '', spacedHex(token.bytes))), el('span', 'ti-dim', about));
  box.append(head);
  if (steps) box.addEventListener('toggle', () => { if (box.open && box.childNodes.length === 1) box.append(stepsOf(piece)); });
  return box;
};
const stepsOf = (piece) => {
  const host = el('div', 'ti-steps');
  if (piece.note) host.append(el('p', 'ti-dim', said(piece.note)));
  if (piece.algorithm === 'bpe') host.append(mergeTable(piece), el('p', 'ti-key', t('merge_tree')), treeList(piece.nodes, piece.roots, 0));
  if (piece.algorithm === 'unigram') host.append(pathTable(piece.steps));
  if (['wordpiece', 'longest'].includes(piece.algorithm)) host.append(greedyTable(piece.steps));
  return host;
};
// One row a merge: its rank, the pair, and the parts after it, near the place.
const mergeTable = (piece) => {
  const node = table('', ['#', t('rank'), t('merge'), t('parts_after')]), parts = piece.nodes.filter((row) => row[2] === null).map((row) => row[0]);
  const line = (at, merged) => {
    const cell = el('span', 'ti-seq'), from = Math.max(0, at - NEAR_PARTS), to = Math.min(parts.length, at + NEAR_PARTS + 1);
    if (from > 0) cell.append(el('span', 'ti-dim', '\u2026'));
    for (let k = from; k < to; k++) cell.append(pieceChip(parts[k], k, k === merged ? 'ti-merged' : ''));
    if (to < parts.length) cell.append(el('span', 'ti-dim', '\u2026'));
    return cell;
  };
  node.append(rowOf(['', '', t('merge_begin'), line(NEAR_PARTS, -1)]));
  piece.steps.forEach((step, k) => { parts.splice(step.at, 2, step.left + step.right); node.append(rowOf([String(k + 1), rankText(step.rank), show(step.left) + ' + ' + show(step.right), line(step.at, step.at)])); });
  return wide(node);
};
const rankText = (rank) => (Number.isInteger(rank) ? number(rank) : rank.toFixed(3));
const treeList = (nodes, which, depth) => {
  const list = el('ul', 'ti-tree');
  for (const k of which) {
    const [text, rank, left, right] = nodes[k], item = el('li');
    list.append(item);
    if (left === null) { item.append(pieceChip(text, 1)); continue; }
    const box = el('details'), head = el('summary'), fill = () => { if (box.open && box.childNodes.length === 1) box.append(treeList(nodes, [left, right], depth + 1)); };
    head.append(pieceChip(text, 0), el('span', 'ti-dim', ' ' + t('rank') + ' ' + rankText(rank)));
    box.append(head); item.append(box);
    box.addEventListener('toggle', fill);
    if (depth < OPEN_DEPTH) { box.open = true; fill(); }
  }
  return list;
};
const pathTable = (paths) => {
  const node = table('', ['', t('score'), t('path_pieces')]);
  paths.forEach((path, k) => {
    const cell = el('span', 'ti-seq');
    path.pieces.forEach((piece, i) => cell.append(tokenChip(piece, path.scores[i].toFixed(2), 'k' + (i & 1))));
    node.append(rowOf([t(k ? 'runner_up' : 'best_path'), path.score.toFixed(3) + (k ? ' (' + (path.score - paths[0].score).toFixed(3) + ')' : ''), cell]));
  });
  return wide(node);
};
const greedyTable = (steps) => {
  const node = table('', [t('at_char'), t('match'), '']);
  for (const step of steps) node.append(rowOf([String(step.at), step.match === null ? t('nothing_matches') : pieceChip(step.match, 0), el('span', 'ti-dim', step.shorter ? t('also_matches', { list: show(step.shorter.join(', ')) || t('nothing') }) : t('tried_longer', { n: number(step.tried) }))]));
  return wide(node);
};
const postParts = (pane) => {
  const line = el('div', 'ti-seq'), chip = (token) => tokenChip('\u2295' + token.piece, token.id, 'ti-addedtok');
  if (!pane.inserted_before.length && !pane.inserted_after.length) return [el('p', 'ti-dim', t('post_nothing'))];
  line.append(...pane.inserted_before.map(chip), el('span', 'ti-dim', t('the_tokens_above', { n: number(pane.input_ids.length - pane.inserted_before.length - pane.inserted_after.length) })), ...pane.inserted_after.map(chip));
  return [line];
};

// ---- merges being learned -------------------------------------------------------------------------------------------
const trainer = (bench, given, kept) => {
  const node = el('details', 'ti-box ti-lesson'), body = el('div'), out = el('div', 'ti-out'), count = textLine('train_merges', kept.count || '20');
  count.inputMode = 'numeric';
  node.open = Boolean(kept.open);
  const asker = new Asker(bench, 'train', () => ({ text: given(), num_merges: /^\d{1,4}$/.test(count.value.trim()) ? +count.value : null }), (answer, busy, doing) => {
    if (!answerState(out, answer, busy, doing)) return;
    stepper.node.hidden = !answer.merges.length;
    stepper.bound(answer.merges.length - 1);
    drawLesson(out, answer, stepper);
  });
  const stepper = new Stepper('train_at', node, () => { if (asker.answer && !asker.answer.error) drawLesson(out, asker.answer, stepper); });
  stepper.node.hidden = true;
  const bar = el('div', 'ti-askbar'), learn = button('ti-btn', t('train_go'), () => asker.now(true));
  count.addEventListener('keydown', (event) => { if (event.key === 'Enter') asker.now(true); });
  bar.append(labelled('train_merges', count, 'ti-narrowask'), learn);
  body.append(el('p', 'ti-dim', t('train_about')), bar, stepper.node, out);
  node.append(el('summary', 'ti-boxhead', t('train_title')), body);
  return { node, keep: () => ({ count: count.value, open: node.open }) };
};
const drawLesson = (out, answer, stepper) => {
  if (!answer.merges.length) { out.replaceChildren(el('p', 'ti-note', t('train_none'))); return; }
  const merge = answer.merges[stepper.at], words = el('div', 'ti-words'), node = table('', ['#', t('id'), t('merge'), t('train_count'), t('gives')], 'ti-lessontable');
  for (const word of merge.words) { const line = el('span', 'ti-word'); word.forEach((part, k) => line.append(pieceChip(part, k, part === merge.left + merge.right ? 'ti-merged' : ''))); words.append(line); }
  answer.merges.forEach((step, k) => {
    const row = rowOf([button('ti-link ti-at', String(k + 1), () => { stepper.stop(); stepper.to(k); }), String(step.id), show(step.left) + ' + ' + show(step.right), number(step.count), pieceChip(step.left + step.right, 0)], k === stepper.at ? 'ti-now' : '');
    if (k === stepper.at) row.setAttribute('aria-current', 'step');
    node.append(row);
  });
  const frame = wide(node), top = out.querySelector('.ti-wideframe');
  frame.classList.add('ti-shortframe');
  const before = top ? top.scrollTop : 0, focused = out.contains(document.activeElement);
  out.replaceChildren(el('p', 'ti-facts', t('train_at', { k: stepper.at + 1, left: show(merge.left), right: show(merge.right), n: number(merge.count) })), words, frame);
  frame.scrollTop = before;
  const now = frame.querySelector('.ti-now');
  if (now && (now.offsetTop < frame.scrollTop + 24 || now.offsetTop + now.offsetHeight > frame.scrollTop + frame.clientHeight)) frame.scrollTop = now.offsetTop - frame.clientHeight / 2;
  if (focused && now) now.querySelector('button').focus({ preventScroll: true });
};

VIEW_MODELS.stages = { panel: keptPanel('stages', buildStages), tools: (bench, host, put) => put('take_selection', () => bench.kept.stages.take()) };
