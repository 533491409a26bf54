// The control plane of both panes: who wrote each control token, where the safe ids part, and what known defences send.

const MOST_ROWS = 300;

const button = (cls, text, act) => { const node = el('button', cls, text); node.type = 'button'; node.addEventListener('click', act); return node; };
const table = (caption, heads, cls) => {
  const node = el('table', 'ti-table ' + (cls || '')), row = el('tr');
  if (caption) node.append(el('caption', '', caption));
  row.append(...heads.map((text) => el(text ? 'th' : 'td', '', text)));
  node.append(row);
  return node;
};
const rowOf = (cells, cls) => { const row = el('tr', cls || ''); for (const cell of cells) { const td = el('td'); td.append(cell); row.append(td); } return row; };

const VERDICT_MARK = { control: '\u2713', from_content: '\u26a0', crosses_segment: '\u26a0\u2194' };

const drawControl = (state, host, bench) => {
  const top = host.scrollTop, answer = state.control;
  host.replaceChildren();
  host.classList.toggle('ti-stale', Boolean(state.controlStale && answer));
  if (state.controlBusy) host.append(el('p', 'ti-working ti-thin', t('control_busy')));
  if (!answer) return;
  const columns = el('div', 'ti-columns');
  answer.panes.forEach((data, q) => {
    const column = el('section'); column.setAttribute('aria-label', letter(q) + ' ' + t('view_control'));
    column.append(el('h2', 'ti-h2', letter(q) + ' \u00b7 ' + (state.own.panes[q].tokenizer ? state.own.panes[q].tokenizer.id : '')));
    if (data.error) column.append(el('p', 'ti-err', data.error));
    else column.append(summary(data), ...[verdictTable, lookAlikes, safeRows, defenceTable, callTable, otherFacts].map((draw) => draw(data, q, bench)).filter(Boolean));
    columns.append(column);
  });
  host.append(columns);
  host.scrollTop = top;
};

const summary = (data) => {
  const forged = data.tokens.filter((row) => row[4] !== 'control').length, line = el('p', forged ? 'ti-verdict ti-hot' : 'ti-verdict');
  line.textContent = forged ? t('control_forged', { n: forged, of: data.tokens.length }) : t('control_clean', { of: data.tokens.length });
  return line;
};
const originButton = (bench, q, index, path, line) => {
  const cell = el('span', 'ti-origin');
  if (path) cell.append(button('ti-link', show(path), () => bench.jumpFrom(q, index, 'field')));
  if (line) cell.append(path ? ' \u00b7 ' : '', button('ti-link', t('template_line', { n: line }), () => bench.jumpFrom(q, index, 'line')));
  return path || line ? cell : el('span', 'ti-dim', t('origin_inserted'));
};
const hovering = (row, bench, q, from, to) => {
  row.addEventListener('mouseenter', () => bench.point({ kind: 'tokens', q, from, to }));
  row.addEventListener('mouseleave', () => bench.point(null));
  return row;
};
const verdictTable = (data, q, bench) => {
  const box = el('div', 'ti-box'), head = el('p', 'ti-boxhead'), label = bench.check('only_from_content', bench.state.onlyForged, (on) => { bench.state.onlyForged = on; bench.draw(true); });
  head.append(el('b', '', t('control_tokens')), label);
  box.append(head);
  const rows = bench.state.onlyForged ? data.tokens.filter((row) => row[4] !== 'control') : data.tokens;
  if (!rows.length) { box.append(el('p', 'ti-dim', t(bench.state.onlyForged ? 'none_from_content' : 'no_control'))); return box; }
  const node = table('', ['#', t('verdict'), t('piece'), t('origin')]);
  const add = (from, to) => { for (const [index, id, piece, special, verdict, path, line] of rows.slice(from, to)) {
    const sign = el('span', verdict === 'control' ? 'ti-at' : 'ti-hot ti-at', VERDICT_MARK[verdict] + ' ' + t('verdict_' + verdict));
    const name = el('span', 'ti-tok ' + (special ? 'f-special' : 'k0 f-added'), show(piece)), kind = el('span', 'ti-dim', ' ' + id + ' ' + t(special ? 'flag_special' : 'added_only')), both = el('span');
    both.append(name, kind);
    node.append(hovering(rowOf([button('ti-link ti-at', String(index), () => bench.go(q, index, index + 1)), sign, both, originButton(bench, q, index, path, line)], verdict === 'control' ? '' : 'ti-forged'), bench, q, index, index + 1));
  } };
  add(0, MOST_ROWS);
  box.append(wide(node));
  if (rows.length > MOST_ROWS) { const more = moreButton(rows.length - MOST_ROWS, () => { more.remove(); add(MOST_ROWS); }); box.append(more); }
  return box;
};
const wide = (node) => { const frame = el('div', 'ti-wideframe'); frame.append(node); return frame; };
const lookAlikes = (data, q, bench) => {
  const box = el('div', 'ti-box');
  box.append(el('p', 'ti-boxhead', t('look_alikes', { n: data.look_alikes.length })));
  if (!data.look_alikes.length) return null;
  const node = table('', ['#', t('text'), t('origin')]);
  for (const row of data.look_alikes.slice(0, MOST_ROWS))
    node.append(hovering(rowOf([button('ti-link ti-at', row.first === row.last ? String(row.first) : row.first + '\u2013' + row.last, () => bench.go(q, row.first, row.last + 1)), el('span', 'ti-tok k1 f-look_alike', show(row.text.slice(0, 200))), originButton(bench, q, row.first, row.path, row.line)]), bench, q, row.first, row.last + 1));
  box.append(wide(node));
  return box;
};

// Where the two id sequences part: the library's tokens above, the safe ones below.
const safeRows = (data, q, bench) => {
  const box = el('div', 'ti-box'), { safe } = data, head = el('p', 'ti-boxhead');
  head.append(el('b', '', t('two_sequences')));
  if (safe.index === null) { box.append(head, el('p', '', t('safe_equal'))); return box; }
  head.append(button('ti-btn', t('show_safe'), () => bench.showSafe(true)));
  box.append(head, el('p', '', t('safe_parts', { index: safe.index, sent: number(safe.num_sent), safe: number(safe.num_safe), extra: signed(safe.extra_tokens) })));
  for (const place of safe.places) {
    const node = el('div', 'ti-parting'), line = (key, name, first, row) => {
      const host = el('div', 'ti-seq'); host.append(el('span', 'ti-seqname', t(name)), el('span', 'ti-dim ti-seqat', '#' + first));
      for (const [id, piece, apart] of row) { const cell = el('span', 'ti-seqtok' + (apart ? ' ti-apart' : '')); cell.append(el('span', '', show(piece)), el('span', 'ti-seqid', String(id))); host.append(cell); }
      return host;
    };
    node.append(line('sent', 'ids_sent', place.first, place.sent), line('safe', 'ids_safe', place.safe_first, place.safe));
    node.append(button('ti-link', t('parting_at', { index: place.first, extra: signed(place.extra) }), () => bench.go(q, place.first, Math.max(place.last, place.first) + 1)));
    box.append(hovering(node, bench, q, place.first, place.last + 1));
  }
  if (safe.left_out) box.append(el('p', 'ti-dim', t('partings_left_out', { n: safe.left_out })));
  return box;
};
const signed = (n) => (n > 0 ? '+' + n : n < 0 ? '\u2212' + -n : '\u00b10');

const defenceTable = (data) => {
  const box = el('div', 'ti-box');
  box.append(el('p', 'ti-boxhead', t('defences')));
  const node = table('', [t('defence'), t('forged'), t('lost_tokens'), t('text'), t('col_tokens'), t('misses')], 'ti-defences');
  for (const row of data.defences) {
    const bad = row.error || row.misses.length, cells = row.error
      ? ['\u2013', '\u2013', '\u2013', '\u2013', el('span', 'ti-dim', row.error)]
      : [String(row.forged), String(row.lost), el('span', 'ti-at', row.text_kept ? '\u2713 ' + t('kept') : '\u2717 ' + t('changed_text')), number(row.tokens) + ' (' + signed(row.extra) + ')', row.misses.length ? el('span', 'ti-hot', row.misses.join('; ')) : el('span', '', '\u2713 ' + t('misses_nothing'))];
    node.append(rowOf([el('code', '', row.name), ...cells], bad ? '' : 'ti-good'));
  }
  box.append(wide(node));
  return box;
};
const callTable = (data) => {
  const box = el('div', 'ti-box');
  box.append(el('p', 'ti-boxhead', t('call_paths')));
  const node = table('', [t('call'), t('col_tokens'), t('leading_bos'), t('eos_at_end'), '']);
  for (const row of data.calls) {
    if (row.error) { node.append(rowOf([el('code', '', row.call), '', '', '', el('span', 'ti-hot', row.error)])); continue; }
    const said = row.warnings.map((name) => t('call_' + name)).join('; ');
    node.append(rowOf([el('code', '', row.call), number(row.num_tokens), String(row.leading_bos), t(row.ends_with_eos ? 'yes' : 'no'), el('span', said ? 'ti-hot' : 'ti-dim', said ? '\u26a0 ' + said : '\u2713')]));
  }
  box.append(wide(node));
  return box;
};
const otherFacts = (data) => {
  const box = el('div', 'ti-box'), { turns, placeholders, terminator } = data;
  const fact = (key, text, bad) => { const line = el('p'); line.append(el('span', 'ti-key', t(key) + ' '), el('span', bad ? 'ti-hot' : '', (bad ? '\u26a0 ' : '') + text)); box.append(line); };
  box.append(el('p', 'ti-boxhead', t('turns_and_ends')));
  fact('turns', t('turns_opened', { opened: turns.opened, messages: turns.messages, forged: turns.by_content }), turns.by_content > 0);
  fact('placeholders', t('placeholders_found', { media: placeholders.media, template: placeholders.by_template, content: placeholders.by_content }) + (placeholders.content_paths.length ? ' \u00b7 ' + show(placeholders.content_paths.slice(0, 8).join(', ')) : ''), placeholders.by_content > 0);
  const ends = terminator.id !== null && terminator.eos_id !== null && terminator.id !== terminator.eos_id, name = (piece, id) => (id === null ? t('none') : show(piece) + ' ' + id);
  fact('turn_end', t('turn_end_is', { written: name(terminator.piece, terminator.id), eos: name(terminator.eos_piece, terminator.eos_id) }) + (ends ? ' \u00b7 ' + t('turn_end_differs') : ''), ends);
  fact('assistant_mask', t('mask_from_' + (data.assistant_from || 'none')));
  return box;
};

// The tables render and tokenize again, so while a person types they wait for a pause.
const askControlSoon = (bench) => { clearTimeout(bench.controlTimer); bench.controlTimer = setTimeout(() => askControl(bench), 400); };
const askControl = async (bench) => {
  const { state } = bench;
  if (bench.controlInFlight) { bench.controlAgain = true; return; }
  clearTimeout(bench.controlTimer);
  bench.controlInFlight = true; state.controlBusy = true;
  if (bench.view === 'control') bench.draw(true);
  const answer = await bench.server.control({ session: bench.session, ...bench.readShown() });
  bench.controlInFlight = false; state.controlBusy = false;
  if (typeof answer === 'string') { state.control = JSON.parse(answer); state.controlStale = Boolean(bench.controlAgain); } else bench.lost(true);
  if (bench.view === 'control') bench.draw(true);
  if (bench.controlAgain) { bench.controlAgain = false; askControl(bench); }
};
const showForged = (bench) => { bench.state.onlyForged = true; bench.open('control'); bench.$('.ti-panel').focus(); };

VIEW_MODELS.control = { panel: drawControl, arrived: askControlSoon, opened: (bench) => { if (!bench.state.control || bench.state.controlStale) askControl(bench); } };
