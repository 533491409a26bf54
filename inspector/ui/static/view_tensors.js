// What the model receives. Several conversations as one batch: ids, mask, positions and labels as grids, padded left or right or
// packed one after the other; and the arrays of each pane alone, in few words.

const BATCH = { of: 0, panes: true, side: 'left', packed: false, mode: 'assistant_only', pad: '', text: '', derived: true, labels: false };

const tensorText = (pane) => pane.tensors.map(({ name, dtype, shape, note, sample }) => name + ' ' + dtype + '[' + shape.join(', ') + '] ' + note + '\n' + sample).join('\n');

const buildTensors = (bench) => {
  const node = el('div', 'ti-tool'), bar = el('div', 'ti-askbar'), bar2 = el('div', 'ti-askbar'), rows = el('div', 'ti-batchrows'), facts = el('div'), grid = new BatchGrid(), packing = el('div'), out = el('div', 'ti-out'), each = el('details', 'ti-box');
  const ui = { node, keep: () => ({}), columns: null, answer: null }, options = () => viewOptions(bench, 'batch', BATCH), set = (values, ms) => { setViewOptions(bench, 'batch', values); refresh(ms); };
  const which = selectOf('batch_of', [], '', (value) => set({ of: +value })), mode = selectOf('batch_mode', ['assistant_only', 'last_turn', 'all'].map((name) => [name, t('mode_' + name)]), 'assistant_only', (value) => set({ mode: value }));
  const pad = textLine('batch_pad', '', 'batch_pad_hint'), text = textBox(2, 'batch_text', '');
  pad.inputMode = 'numeric'; text.placeholder = '{"messages": [{"role": "user", "content": "\u2026"}]}';
  pad.addEventListener('input', () => set({ pad: pad.value }, 250)); text.addEventListener('input', () => set({ text: text.value }, 250));
  const panes = bench.check('batch_panes', true, (on) => set({ panes: on })), derived = bench.check('batch_derived', true, (on) => set({ derived: on })), labels = bench.check('batch_labels', false, (on) => set({ labels: on })), sides = el('div');
  bar.append(labelled('batch_of', which, 'ti-midask'), labelled('batch_text', text, 'ti-wideask'));
  bar2.append(labelled('batch_mode', mode, 'ti-midask'), labelled('batch_pad', pad, 'ti-midask'), sides, panes, derived, labels);
  out.append(rows, facts, grid.node, grid.said, packing);
  each.append(el('summary', 'ti-boxhead', t('batch_each')));
  node.append(bar, bar2, out, each);

  const asker = new Asker(bench, 'batch', () => {
    if (!bench.slots.every((slot) => slot.answered)) return null;
    const { fields, panes: given } = bench.readShown(), chosen = options();
    return { at: bench.at, fields, panes: given, of: Math.min(chosen.of, given.length - 1), others: chosen.panes, ...Object.fromEntries(['text', 'side', 'packed', 'mode'].map((name) => [name, chosen[name]])), pad_id: chosen.pad };
  }, async (answer, busy, doing) => {
    out.classList.toggle('ti-busy', Boolean(busy && answer));
    if (!answer || busy) { if (!ui.answer) rows.replaceChildren(statusLine(doing || t('computing'))); return; }
    if (answer.error) { ui.answer = null; shown(false); rows.replaceChildren(alertLine(answer.error)); return; }
    const columns = answer.batch ? await gridColumns(answer.batch) : null;
    if (asker.answer !== answer) return;
    Object.assign(ui, { answer, columns });
    draw();
  });
  const shown = (on) => { for (const part of [facts, grid.node, grid.said, packing]) part.hidden = !on; };
  const draw = () => {
    const { answer } = ui, chosen = options();
    if (!answer) return;
    rows.replaceChildren(...rowLines(answer));
    shown(Boolean(ui.columns));
    if (!ui.columns) return;
    const { batch } = answer, names = answer.rows.filter((row) => !row.error).map(({ name }) => name);
    facts.replaceChildren(...(batch.packed ? packedFacts(batch, names) : batchFacts(batch, names, chosen)), copyBatch(bench, batch, ui.columns, chosen));
    grid.set(batch.packed ? packedLines(batch, ui.columns, names) : batchLines(batch, ui.columns, names, chosen), batch.shape[1], t('batch_grid'));
    grid.node.style.maxHeight = '440px';
    packing.replaceChildren(...(batch.packed ? [packedMask(batch, names)] : []));
  };
  const refresh = (ms) => {
    const chosen = options(), put = (box, value) => { if (document.activeElement !== box && box.value !== value) box.value = value; };
    which.replaceChildren(...bench.slots.map((_, q) => { const option = el('option', '', letter(q) + ' \u00b7 ' + showButSpaces(paneTitle(bench, q))); option.value = q; return option; }));
    which.value = Math.min(chosen.of, bench.slots.length - 1);
    mode.value = chosen.mode; put(pad, chosen.pad); put(text, chosen.text);
    panes.firstChild.checked = chosen.panes; derived.firstChild.checked = chosen.derived; labels.firstChild.checked = chosen.labels;
    derived.hidden = pad.parentNode.hidden = chosen.packed;
    mode.parentNode.hidden = !chosen.labels;
    keepFocus(sides, () => sides.replaceChildren(choiceRow('batch_layout', [['left', t('batch_left')], ['right', t('batch_right')], ['packed', t('batch_packed')]], chosen.packed ? 'packed' : chosen.side, (key) => set(key === 'packed' ? { packed: true } : { packed: false, side: key }))));
    each.replaceChildren(each.firstChild, paneArrays(bench));
    draw();
    asker.soon(ms || 0);
  };
  ui.refresh = () => refresh();
  return ui;
};
const rowLines = (answer) => answer.rows.filter((row) => row.error).map((row) => alertLine(row.name + ': ' + row.error));

// ---- padded ------------------------------------------------------------------------------------------------------------
const batchFacts = (batch, names, chosen) => {
  const [b, n] = batch.shape, line = el('p', 'ti-facts'), parts = [t('batch_shape', { b, n: number(n) }), t('batch_pad_is', { id: batch.pad_id, piece: pieceOf(batch.pieces, batch.pad_id) || '?' })];
  line.textContent = parts.join(' \u00b7 ');
  const list = el('ul', 'ti-checks'), add = (bad, text) => list.append(el('li', bad ? 'ti-hot' : '', (bad ? '\u26a0 ' : '\u2713 ') + text));
  batch.lengths.forEach((length, k) => list.append(el('li', '', names[k] + ': ' + t('batch_length', { n: number(length), pads: number(n - length) }))));
  const short = names.filter((_, k) => batch.last_column_is_padding[k]), moved = batch.shifts.map((shift, k) => [names[k], shift]).filter(([, shift]) => shift);
  add(short.length > 0, short.length ? t('batch_last_is_pad', { rows: short.join(', '), at: batch.last_positions.join(', ') }) : t('batch_last_is_token'));
  if (moved.length) add(!chosen.derived, t(chosen.derived ? 'batch_positions_derived' : 'batch_positions_wrong', { rows: moved.map(([name, shift]) => name + ' +' + shift).join(', ') })); else add(false, t('batch_positions_same'));
  add(batch.pad_is_eos, t(batch.pad_is_eos ? 'batch_pad_is_eos' : 'batch_pad_apart'));
  return [line, list, batchLegend(false)];
};
const batchLegend = (packed) => {
  const node = el('p', 'ti-barlegend');
  for (const [cls, key] of [['ti-cellpad', 'batch_cell_pad'], ['ti-celleos', 'batch_cell_eos'], ['ti-learned', 'label_trained'], ...(packed ? [['ti-cellfirst', 'batch_cell_first']] : [['ti-cellwrong', 'batch_cell_wrong']])].filter(([cls]) => !(packed && cls === 'ti-cellpad'))) { const item = el('span'); item.append(el('span', 'ti-batchkey ' + cls, { 'ti-cellpad': '\u2205', 'ti-celleos': 'E' }[cls] || '0'), t(key)); node.append(item); }
  return node;
};
const padClass = (cells, i) => (cells[i] === CELL_PAD ? 'ti-cellpad' : cells[i] === CELL_EOS ? 'ti-celleos' : '');
const batchLines = (batch, columns, names, chosen) => {
  const [b, n] = batch.shape, { input_ids: ids, attention_mask: mask, position_ids: positions, labels, cells } = columns, lines = [];
  const where = (row, c) => names[row] + ', ' + t('batch_column', { n: c });
  const what = (i) => (cells[i] === CELL_PAD ? t('batch_cell_pad') : cells[i] === CELL_EOS ? t('batch_cell_eos') : pieceOf(batch.pieces, ids[i]));
  const words = (row, c) => { const i = row * n + c; return where(row, c) + ': id ' + ids[i] + ' ' + what(i) + '; attention_mask ' + mask[i] + '; position_ids ' + (chosen.derived ? positions[i] : c + (mask[i] && positions[i] !== c ? ' (' + t('batch_should', { n: positions[i] }) + ')' : '')) + '; labels ' + labels[i]; };
  const array = (name, dtype, tall, cell) => { lines.push({ head: name + ' ' + dtype + '[' + b + ', ' + n + ']' }); for (let row = 0; row < b; row++) lines.push({ name: names[row], tall, cell: (c) => ({ words: words(row, c), ...cell(row * n + c, c) }) }); };
  array('input_ids', 'int64', true, (i) => ({ text: (cells[i] === CELL_PAD ? '\u2205 ' : '') + pieceOf(batch.pieces, ids[i]), sub: String(ids[i]), cls: padClass(cells, i) + (cells[i] === CELL_TOKEN ? ' k' + (i & 1) : '') }));
  array('attention_mask', 'int64', false, (i) => ({ text: String(mask[i]), cls: padClass(cells, i) }));
  array('position_ids', 'int64', false, (i, c) => { const wrong = !chosen.derived && mask[i] && positions[i] !== c; return { text: chosen.derived ? String(positions[i]) : c + (wrong ? ' \u2260' + positions[i] : ''), cls: padClass(cells, i) + (wrong ? ' ti-cellwrong' : '') }; });
  if (chosen.labels) array('labels', 'int64', false, (i) => ({ text: String(labels[i]), cls: padClass(cells, i) + (labels[i] === -100 ? ' ti-dim' : ' ti-learned') }));
  return lines;
};

// ---- packed ------------------------------------------------------------------------------------------------------------
const packedFacts = (batch, names) => {
  const line = el('p', 'ti-facts', t('packed_facts', { n: number(batch.shape[1]), rows: names.length, bounds: batch.boundaries.join(', ') }));
  return [line, el('p', batch.leaks ? 'ti-hot' : '', (batch.leaks ? '\u26a0 ' : '\u2713 ') + t('packed_leaks', { n: number(batch.leaks) })), batchLegend(true)];
};
const packedLines = (batch, columns, names) => {
  const n = batch.shape[1], { input_ids: ids, position_ids: positions, labels, sequence_ids: sequences } = columns, first = new Set(batch.boundaries.slice(0, -1));
  const words = (c) => names[sequences[c]] + ', ' + t('batch_column', { n: c }) + ': id ' + ids[c] + ' ' + pieceOf(batch.pieces, ids[c]) + '; position_ids ' + positions[c] + '; labels ' + labels[c];
  const cls = (c) => (first.has(c) ? 'ti-cellfirst ' : '') + (ids[c] === batch.eos_id ? 'ti-celleos ' : '');
  const line = (name, tall, cell) => [{ head: name + ' int64[1, ' + n + ']' }, { name: '', tall, cell: (c) => ({ words: words(c), ...cell(c) }) }];
  return [
    ...line('input_ids', true, (c) => ({ text: pieceOf(batch.pieces, ids[c]), sub: String(ids[c]), cls: cls(c) + 'k' + (sequences[c] & 1) })),
    ...line('position_ids', false, (c) => ({ text: String(positions[c]), cls: cls(c) })),
    ...line('sequence_ids', false, (c) => ({ text: names[sequences[c]], cls: cls(c) })),
    ...line('labels', false, (c) => ({ text: String(labels[c]), cls: cls(c) + (labels[c] === -100 ? ' ti-dim' : ' ti-learned') })),
  ];
};
// Which positions see each other: the blocks of the rows in the triangle that a plain causal mask would give.
const packedMask = (batch, names) => {
  const figure = el('figure', 'ti-packmask'), field = el('div', 'ti-maskfield'), n = batch.shape[1], list = el('ul', 'ti-checks');
  field.setAttribute('role', 'img'); field.setAttribute('aria-label', t('packed_mask', { rows: names.length }));
  field.append(el('div', 'ti-maskleak'));
  batch.boundaries.slice(0, -1).forEach((start, k) => {
    const block = el('div', 'ti-maskblock ' + (k & 1 ? 'ti-odd' : '')), size = batch.boundaries[k + 1] - start;
    block.style.left = block.style.top = (100 * start) / n + '%'; block.style.width = block.style.height = (100 * size) / n + '%';
    field.append(block);
    list.append(el('li', '', names[k] + ': ' + number(start) + '\u2013' + number(start + size)));
  });
  const caption = el('figcaption');
  caption.append(el('b', '', t('packed_mask_title')), el('span', 'ti-maskkey'), t('packed_sees'), el('span', 'ti-maskkey ti-maskleak'), t('packed_would_see'), list);
  figure.append(field, caption);
  return figure;
};

// ---- copies, and the arrays of each pane -----------------------------------------------------------------------------------
const rowsOfArray = (values, b, n) => Array.from({ length: b }, (_, row) => Array.from(values.subarray(row * n, (row + 1) * n)));
const batchArrays = (batch, columns, chosen) => {
  const [b, n] = batch.shape, out = {};
  for (const [name] of batch.columns) if (name !== 'cells') out[name] = rowsOfArray(columns[name], b, n);
  if (!batch.packed && !chosen.derived) out.position_ids = out.position_ids.map((row) => row.map((_, c) => c));
  if (batch.packed) { delete out.sequence_ids; out.cu_seqlens = batch.boundaries; }
  return out;
};
const copyBatch = (bench, batch, columns, chosen) => {
  const line = el('p', 'ti-copyrow'), python = () => Object.entries(batchArrays(batch, columns, chosen)).map(([name, rows]) => name + ' = ' + JSON.stringify(rows).replaceAll(',', ', ') + '\n').join('');
  line.append(button('ti-btn', t('copy_python'), () => bench.copy(python())), button('ti-btn', t('copy_json'), () => bench.copy(JSON.stringify(batchArrays(batch, columns, chosen)))));
  return line;
};
const paneArrays = (bench) => {
  const columns = el('div', 'ti-columns');
  bench.state.own.panes.forEach((pane, q) => {
    const column = el('section'), node = table(letter(q), [t('array'), t('array_shape'), t('array_values')], 'ti-arrays');
    for (const { name, dtype, shape, note, sample } of pane.tensors) node.append(rowOf([el('code', '', name), dtype + '[' + shape.join(', ') + ']', note + ': ' + sample]));
    column.append(wide(node));
    columns.append(column);
  });
  return columns;
};

VIEW_MODELS.tensors = { panel: keptPanel('tensors', buildTensors), copies: { key: 'copy_text', text: (bench, q) => tensorText(bench.state.panes[q]) } };
