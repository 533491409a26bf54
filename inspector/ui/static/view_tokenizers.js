// Any text in any number of tokenizers, without a template: a table, a chart, costs, where the cuts differ, and what bites
// about each of them.

const MOST_CHIPS = 120, CHART_ROW = 36;
const refText = (ref) => show(ref).replaceAll('\u00b7', ' ');

const buildTokenizers = (bench, kept) => {
  const node = el('div', 'ti-tool'), area = textBox(3, 'tokenizers_text', kept.text), out = el('div', 'ti-out'), other = textLine('tokenizers_other', '', 'tokenizers_add_hint'), list = el('datalist');
  const saved = storedChoice(), ui = { node, chosen: kept.chosen || saved.chosen, prices: kept.prices || saved.prices, rows: kept.rows || null, filled: kept.filled ?? null, open: new Set(kept.open), bites: kept.bites || new Map() };
  ui.keep = () => ({ text: area.value, chosen: ui.chosen, prices: ui.prices, rows: ui.rows, filled: ui.filled, open: [...ui.open], bites: ui.bites });
  const body = () => (ui.chosen && ui.chosen.length ? { text: exactText(area, ui.filled), tokenizers: ui.chosen } : null);
  const draw = (...given) => drawTokenizers(bench, out, given, ui, remove);
  const asker = new Asker(bench, 'tokenizers', body, draw);
  const changed = () => { storeChoice(ui); if (ui.chosen.length) asker.soon(0); else out.replaceChildren(el('p', 'ti-note', t('tokenizers_none'))); };
  const remove = (ref) => {
    const all = Array.from(out.querySelectorAll('.ti-remove')), at = all.findIndex((node) => node.dataset.focus === 'remove ' + ref);
    ui.chosen = ui.chosen.filter((one) => one !== ref);
    (all[at + 1] || all[at - 1] || other).focus();
    changed();
  };
  const add = () => { const ref = other.value.trim(); if (!ref) return; other.value = ''; if (!ui.chosen.includes(ref)) { ui.chosen = [...ui.chosen, ref]; changed(); } };
  list.id = FLOW.uid + '-tokenizers'; other.setAttribute('list', list.id);
  other.addEventListener('keydown', (event) => { if (event.key === 'Enter') { event.preventDefault(); add(); } });
  const options = () => list.replaceChildren(...ui.rows.map((row) => { const option = el('option', '', row.cached ? row.title : '\u2193 ' + t('to_be_fetched') + ' ' + row.title); option.value = row.id; return option; }));
  const panes = () => bench.read().panes.map((pane) => pane.tokenizer);
  const start = async () => {
    if (!ui.rows) {
      const text = await bench.server.catalogue({ session: bench.session });
      if (typeof text !== 'string') { ui.started = false; bench.lost(true); return; }
      const answer = JSON.parse(text);
      if (answer.error) { ui.started = false; out.replaceChildren(alertLine(answer.error)); return; }
      ui.rows = answer.tokenizers;
      ui.chosen = ui.chosen || [...new Set([...panes(), ...answer.chosen])];
    }
    options(); asker.soon(0);
  };
  const bar = el('div', 'ti-askbar'), row = el('div', 'ti-askbar');
  ui.csv = (act) => csvOf(bench, body(), ui, act);
  ui.take = () => { area.value = ui.filled = selectedText(bench); asker.soon(0); };
  area.addEventListener('input', () => asker.soon(250));
  bar.append(labelled('tokenizers_text', area, 'ti-wideask'));
  row.append(labelled('tokenizers_add', other, 'ti-midask'), list, button('ti-btn', t('add'), add), button('ti-btn', t('add_panes'), () => { ui.chosen = [...new Set([...ui.chosen || [], ...panes()])]; changed(); }));
  node.append(bar, row, out);
  ui.refresh = () => {
    if (ui.filled === null || isAsPut(area, ui.filled)) area.value = ui.filled = selectedText(bench);
    if (!ui.started) { ui.started = true; start(); } else asker.soon(300);
  };
  return ui;
};
// Which tokenizers and at what prices: kept over a reload, like the page's other inputs.
const storedChoice = () => {
  try {
    const { chosen, prices } = JSON.parse(stored('sessionStorage', 'tokenizers'));
    if (chosen.every((ref) => typeof ref === 'string') && Object.values(prices).every((price) => typeof price === 'string')) return { chosen, prices };
  } catch (error) { /* nothing was kept */ }
  return { chosen: null, prices: {} };
};
const storeChoice = ({ chosen, prices }) => keep('sessionStorage', 'tokenizers', JSON.stringify({ chosen, prices }));

const drawTokenizers = (bench, out, [answer, busy, doing], ui, remove) => {
  if (!ui.chosen.length || !answerState(out, answer, busy, doing)) return;
  keepFocus(out, () => out.replaceChildren(
    el('p', 'ti-facts', t('text_size', { chars: number(answer.num_chars), bytes: number(answer.num_bytes) })),
    ...answer.missing.map((row) => { const line = alertLine(refText(row.ref) + ': ' + row.error); line.append(' ', focusable(button('ti-link ti-remove', t('remove'), () => remove(row.ref)), 'remove ' + row.ref)); return line; }),
    countTable(answer, ui, remove), barChart(answer), pieceRows(answer), differingTable(answer), bitesBox(bench, answer, ui),
  ));
};
const priceOf = (ui, ref) => { const text = String(ui.prices[ref] ?? '').trim().replace(',', '.'); return /^\d{1,9}(\.\d{0,9})?$/.test(text) ? Number(text) : null; };
const countTable = (answer, ui, remove) => {
  const heads = [t('tokenizer'), t('col_tokens'), t('bytes_per_token'), t('against_least'), t('price'), t('cost'), ''], node = table('', heads, 'ti-rates'), least = Math.min(...answer.rows.map((row) => row.num_tokens)), apart = answer.rows.some((row) => row.num_tokens !== least);
  for (const row of answer.rows) {
    const price = textLine('price', ui.prices[row.ref]), cost = el('span', 'ti-at'), name = el('span', '', refText(row.ref));
    price.inputMode = 'decimal'; price.dataset.price = row.ref; focusable(price, 'price ' + row.ref); price.setAttribute('aria-label', refText(row.ref) + ' ' + t('price'));
    const spend = () => { const value = priceOf(ui, row.ref), wrong = Boolean(price.value.trim()) && value === null; if (wrong) price.setAttribute('aria-invalid', 'true'); else price.removeAttribute('aria-invalid'); cost.textContent = wrong ? t('no_price') : value === null ? '\u2013' : money(value * row.num_tokens / 1e6); };
    price.addEventListener('input', () => { ui.prices[row.ref] = price.value; storeChoice(ui); spend(); });
    spend();
    if (row.tokenizer !== row.ref) name.title = row.tokenizer;
    const gone = focusable(button('ti-btn ti-remove', '\u00d7', () => remove(row.ref)), 'remove ' + row.ref); gone.setAttribute('aria-label', t('remove') + ' ' + refText(row.ref));
    const line = rowOf([name, number(row.num_tokens), row.bytes_per_token === null ? '\u2013' : row.bytes_per_token.toFixed(2), row.num_tokens === least ? '1.00 \u00d7' : (row.num_tokens / Math.max(1, least)).toFixed(2) + ' \u00d7', price, cost, gone], apart && row.num_tokens === least ? 'ti-good' : '');
    Array.from(line.cells, (cell, k) => { cell.dataset.label = heads[k]; });
    node.append(line);
  }
  return wide(node);
};
const money = (value) => (value === 0 ? '0' : value < 1e-6 ? value.toExponential(2) : String(Number(value.toPrecision(4))));
// Labels stand above their bars and widths are percentages, so the chart keeps its letters' size at any width.
const barChart = (answer) => {
  const max = Math.max(1, ...answer.rows.map((row) => row.num_tokens)), chart = svg('svg', { class: 'ti-chart', width: '100%', height: answer.rows.length * CHART_ROW, role: 'img', 'aria-label': t('chart') + ': ' + answer.rows.map((row) => refText(row.ref) + ' ' + row.num_tokens).join(', ') });
  answer.rows.forEach((row, k) => {
    const y = k * CHART_ROW;
    chart.append(svg('text', { x: 0, y: y + 13 }, refText(row.ref) + ' \u00b7 ' + number(row.num_tokens)), svg('rect', { class: 'ti-chartback', x: 0, y: y + 18, width: '100%', height: 11, rx: 2 }), svg('rect', { class: 'ti-chartbar', x: 0, y: y + 18, width: (100 * row.num_tokens) / max + '%', height: 11, rx: 2 }));
  });
  return chart;
};
const pieceRows = (answer) => {
  const box = el('div', 'ti-box');
  box.append(el('p', 'ti-boxhead', t('ids_and_pieces')));
  for (const row of answer.rows) {
    const line = el('div', 'ti-seq ti-pieces'), chips = (from, to) => row.ids.slice(from, to).map((id, k) => tokenChip(row.pieces[from + k], id, 'k' + ((from + k) & 1)));
    line.append(el('b', 'ti-rowname', refText(row.ref)), ...chips(0, MOST_CHIPS));
    if (row.ids.length > MOST_CHIPS) { const more = moreButton(row.ids.length - MOST_CHIPS, () => more.replaceWith(...chips(MOST_CHIPS, row.ids.length))); line.append(more); }
    if (row.num_tokens > row.ids.length) line.append(el('span', 'ti-dim', t('not_shown', { n: number(row.num_tokens - row.ids.length) })));
    box.append(line);
  }
  return box;
};
const differingTable = (answer) => {
  const box = el('div', 'ti-box');
  if (answer.rows.length < 2) return box;
  box.append(el('p', 'ti-boxhead', t('cut_differently', { n: number(answer.differing.length + answer.left_out) })));
  if (!answer.differing.length) { box.append(el('p', 'ti-dim', '\u2713 ' + t('cut_alike'))); return box; }
  const node = table('', [t('bytes'), ...answer.rows.map((row) => refText(row.ref))], 'ti-differing');
  for (const stretch of answer.differing) {
    node.append(rowOf([stretch.start + '\u2013' + stretch.end, ...stretch.cuts.map((cuts) => { const cell = el('span', 'ti-cuts'); cuts.forEach((piece, k) => cell.append(pieceChip(piece, k))); return cell; })]));
  }
  box.append(wide(node));
  if (answer.left_out) box.append(el('p', 'ti-dim', t('not_shown', { n: number(answer.left_out) })));
  return box;
};
const csvOf = async (bench, body, ui, act) => {
  if (!body) return;
  const prices = Object.fromEntries(body.tokenizers.map((ref) => [ref, priceOf(ui, ref)]).filter(([, price]) => price !== null));
  const text = await bench.server.tokenizers({ session: bench.session, ...body, prices, csv: true });
  if (typeof text !== 'string') { bench.lost(true); return; }
  const answer = JSON.parse(text);
  if (answer.error) { bench.status(answer.error, 'bad'); return; }
  act(answer.csv);
};
const saveCsv = (text) => saveFile('tokenizers.csv', '\ufeff' + text, 'text/csv;charset=utf-8');

// ---- differences that bite ------------------------------------------------------------------------------------------
const BITE_MARK = { ok: '\u2713', bites: '\u26a0', unknown: '?' };
const bitesBox = (bench, answer, ui) => {
  const box = el('div', 'ti-box');
  box.append(el('p', 'ti-boxhead', t('bites_title')));
  for (const row of answer.rows) {
    const part = el('details', 'ti-bites'), out = el('div', 'ti-out');
    let asker = ui.bites.get(row.ref);
    if (!asker) { asker = new Asker(bench, 'differences', () => ({ tokenizer: row.ref }), () => asker.draw()); ui.bites.set(row.ref, asker); }
    asker.draw = (doing) => { if (answerState(out, asker.answer, asker.busy, doing)) out.replaceChildren(wide(biteTable(asker.answer))); };
    asker.arrived = (_answer, _busy, doing) => asker.draw(doing);
    part.open = ui.open.has(row.ref);
    part.addEventListener('toggle', () => { if (part.open) { ui.open.add(row.ref); asker.soon(0); } else ui.open.delete(row.ref); });
    if (asker.answer || asker.busy) asker.draw();
    part.append(focusable(el('summary', '', refText(row.ref)), 'bites ' + row.ref), out);
    box.append(part);
  }
  return box;
};
const biteTable = (answer) => {
  const node = table('', [t('verdict'), t('bite_what'), t('bite_found')], 'ti-bitetable');
  for (const row of answer.rows) {
    const found = el('span'), facts = row.facts.filter(([, value]) => value !== '' && value !== null);
    for (const [name, value] of facts) { const line = el('span', 'ti-fact'); line.append(el('span', 'ti-key', t('bite_' + name) === 'bite_' + name ? name : t('bite_' + name)), el('span', '', typeof value === 'boolean' ? t(value ? 'yes' : 'no') : typeof value === 'number' ? number(value) : refText(String(value)))); found.append(line, ' '); }
    for (const remark of row.remarks) found.append(el('p', row.verdict === 'bites' ? 'ti-hot' : 'ti-dim', said(remark)));
    if (row.verdict === 'unknown' && !row.remarks.length) found.append(el('p', 'ti-dim', t('bite_unknown_' + row.part)));
    node.append(rowOf([el('span', row.verdict === 'bites' ? 'ti-hot ti-at' : 'ti-at', BITE_MARK[row.verdict] + ' ' + t('bite_' + row.verdict)), t('bite_part_' + row.part), found], row.verdict === 'bites' ? 'ti-forged' : ''));
  }
  return node;
};

const tokenizerTools = (bench, host, put) => {
  const ui = () => bench.kept.tokenizers;
  put('take_selection', () => ui().take());
  put('save_csv', () => ui().csv(saveCsv));
  put('copy_csv', () => ui().csv((text) => bench.copy(text)));
};

VIEW_MODELS.tokenizers = { panel: keptPanel('tokenizers', buildTokenizers), tools: tokenizerTools };
