// A scanned dataset: what `scan` found of all rows, each number with the first rows behind it, each row one click from the
// bench. The summary's counts are shown as they are; nothing is computed here but shares.

const MOST_SUMMARY = 32000000, MOST_FAULTS = 12;
const rowName = (file, row) => show(file).replaceAll('\u00b7', ' ') + ' \u00b7 ' + t('dataset_row', { n: number(row) });
const shareText = (share) => (share === null || !Number.isFinite(share) ? '\u2013' : (100 * share).toFixed(2) + ' %');
const lookUp = (key, name) => (t(key + name) === key + name ? show(String(name)).replaceAll('\u00b7', ' ') : t(key + name));
const foreign = (text) => { const node = el('bdi', '', show(String(text)).replaceAll('\u00b7', ' ')); return node; };

const buildDataset = (bench, kept) => {
  const node = el('div', 'ti-tool ti-dataset'), bar = el('div', 'ti-askbar'), out = el('div', 'ti-out'), list = el('datalist'), held = bench.datasetState();
  held.list = null;  // its title is of the language that was
  const place = textLine('dataset_folder', kept.folder ?? held.folder, 'dataset_folder_hint'), file = el('input'), pick = el('label', 'ti-btn ti-pickfile'), typed = bench.config.servers.typed;
  const scan = typed ? buildScan(bench, held, kept.scan || {}) : null, ui = { node, out, drawn: '', keep: () => ({ folder: place.value, scan: scan ? scan.keep() : {} }) };
  const go = () => { if (place.value.trim()) bench.openDataset(place.value.trim()); };
  file.type = 'file'; file.accept = '.json,application/json'; file.dataset.in = 'dataset_file';
  file.addEventListener('change', () => { if (file.files.length) bench.openSummaryFile(file.files[0]); file.value = ''; });
  pick.append(el('span', '', t('dataset_file')), file);
  list.id = FLOW.uid + '-scans'; place.setAttribute('list', list.id);
  place.addEventListener('keydown', (event) => { if (event.key === 'Enter') { event.preventDefault(); go(); } });
  if (typed) bar.append(labelled('dataset_folder', place, 'ti-wideask'), list, button('ti-btn ti-main-btn', t('dataset_open'), go));
  bar.append(pick);
  node.append(bar, el('p', 'ti-hint', t(typed ? 'dataset_about' : 'dataset_public')), ...(scan ? [scan] : []), out);
  ui.refresh = () => {
    const wide = bench.$('.ti-panel').clientWidth, key = [held.version, wide, document.body.classList.contains('dark')].join();
    bench.askScans();
    if (scan) scan.refresh();
    if (key === ui.drawn) return;
    ui.drawn = key;
    if (held.from && held.from === held.folder && document.activeElement !== place) place.value = held.folder;
    list.replaceChildren(...(held.scans || []).map(({ folder }) => { const option = el('option'); option.value = folder; return option; }));
    keepFocus(out, () => {
      try { out.replaceChildren(...datasetParts(bench, held, wide)); } catch (error) { if (!(error instanceof TypeError)) throw error; out.replaceChildren(alertLine(t('dataset_file_other'))); }
    });
  };
  return ui;
};
// The form that starts a scan with the panes' tokenizers and templates, and what the newest scan is at.
const buildScan = (bench, held, kept) => {
  const node = el('details', 'ti-scan'), head = el('summary', '', t('scan_new')), bar = el('div', 'ti-askbar'), now = el('div', 'ti-scannow'), chosen = el('p', 'ti-hint'), err = alertLine(''), sending = statusLine('');
  const source = textLine('scan_source', kept.source, 'scan_source_hint'), limit = textLine('scan_limit', kept.limit, 'scan_limit_hint'), both = el('input'), file = el('input'), pick = el('label', 'ti-btn ti-pickfile'), compare = el('label', 'ti-check'), start = button('ti-btn ti-main-btn', t('scan_start'), () => begin());
  limit.inputMode = 'numeric'; limit.size = 8;
  both.type = 'checkbox'; both.checked = Boolean(kept.both); both.dataset.in = 'scan_both';
  compare.append(both, ' ', t('scan_both'));
  file.type = 'file'; file.dataset.in = 'scan_file'; file.accept = '.jsonl,.ndjson,.json,.csv,.parquet,.pq,.arrow,.feather,.ipc,.gz,.zst';
  pick.append(el('span', '', t('scan_file')), file);
  const fail = (text) => { err.textContent = text; err.hidden = !text; }, say = (text, fault) => { sending.textContent = text; sending.hidden = !text; if (fault) fail(fault); };
  const begin = async () => { fail(''); start.disabled = true; await bench.startScan(source.value, both.checked, limit.value.trim()); start.disabled = false; };
  file.addEventListener('change', async () => { const [one] = file.files; fail(''); if (one) { const path = await bench.sendDataset(one, say); if (path) source.value = path; } file.value = ''; });
  for (const input of [source, limit]) input.addEventListener('keydown', (event) => { if (event.key === 'Enter') { event.preventDefault(); begin(); } });
  both.addEventListener('change', () => sides());
  bar.append(labelled('scan_source', source, 'ti-wideask'), pick, labelled('scan_limit', limit), compare, start);
  node.append(head, el('p', 'ti-hint', t('scan_about')), bar, chosen, sending, err, now);
  node.open = Boolean(kept.open);
  const choice = (q) => letter(q) + ': ' + bench.heads[q].named(bench.read().panes[q]);
  const sides = () => { const two = bench.heads.length > 1; both.disabled = !two; if (!two) both.checked = false; chosen.textContent = t('scan_with', { sides: [0, ...(both.checked ? [1] : [])].map(choice).join(' \u00b7 ') }); };
  const draw = () => {
    const { scan } = held;
    if (held.scanError) fail(held.scanError);
    if (!scan) { now.replaceChildren(); return; }
    const runs = RUNNING.has(scan.state), line = el('p', 'ti-facts'), meter = el('progress');
    line.setAttribute('role', 'status');
    line.textContent = t('scan_' + scan.state, { source: show(scan.source).replaceAll('\u00b7', ' '), rows: number(scan.rows), total: scan.total === null ? '?' : number(scan.total), refused: number(scan.refused), folder: show(scan.folder).replaceAll('\u00b7', ' ') }) + (runs && scan.rate ? ' \u00b7 ' + t('scan_rate', { rate: number(Math.round(scan.rate)), left: number(scan.left_s ?? 0) }) : '');
    if (scan.total) { meter.max = scan.total; meter.value = scan.rows; }
    meter.setAttribute('aria-label', t('scan_progress'));
    now.replaceChildren(line, ...(runs ? [meter, ' ', button('ti-btn', t('cancel'), () => bench.stopScan())] : scan.failure ? [alertLine(scan.failure)] : scan.rows && held.from !== scan.folder ? [button('ti-btn', t('dataset_open'), () => bench.openDataset(scan.folder))] : []));
    if (runs) node.open = true;
  };
  held.scanTell = draw;
  node.refresh = () => { sides(); draw(); bench.followScan(); };
  node.keep = () => ({ source: source.value, limit: limit.value, both: both.checked, open: node.open });
  fail(''); say('', '');
  return node;
};
const datasetParts = (bench, held, wide) => {
  const parts = [];
  if (held.error) parts.push(alertLine(held.error));
  if (held.rowError && !held.list) parts.push(alertLine(held.rowError));
  if (held.busy) parts.push(statusLine(t('dataset_reading')));
  if (!held.summary) return parts.length ? parts : [el('pre', 'ti-flowtext', 'python -m inspector scan data.jsonl --tokenizer qwen3 --out scan-of-data')];
  const draw = new DatasetDrawing(bench, held, wide);
  return [...parts, ...draw.all()];
};

class DatasetDrawing {
  constructor(bench, held, wide) { Object.assign(this, { bench, held, value: held.summary, scan: held.summary.scan, total: held.summary.rows.total, host: this.measured(bench, wide) }); }
  // What Picture reads of the panel: its style and the width of one figure.
  measured(bench, wide) { const host = bench.$('.ti-panel'); host.width = (wide - 24 - (wide > 930 ? 12 : 0)) / (wide > 930 ? 2 : 1) - 22; return host; }
  // A number that opens the rows behind it, where it has some.
  count(title, entry, key = 'rows') {
    const text = number(entry[key]);
    if (!entry.examples.length) return el('span', 'ti-at', text);
    const node = focusable(button('ti-link ti-at', text, () => this.showRows(title, entry)), 'count ' + title);
    node.setAttribute('aria-label', title + ': ' + text);
    return node;
  }
  showRows(title, entry) {
    Object.assign(this.held, { list: { title, entry }, rowError: '' });
    this.back = document.activeElement && document.activeElement.dataset.focus;
    this.held.back = this.back;
    this.bench.datasetChanged();
    const first = this.bench.$('.ti-picked .ti-row');
    if (first) first.focus();
  }
  closeRows() {
    const { back } = this.held;
    Object.assign(this.held, { list: null, rowError: '' });
    this.bench.datasetChanged();
    const node = Array.from(this.bench.root.querySelectorAll('.ti-dataset [data-focus]')).find((one) => one.dataset.focus === back);
    if (node) node.focus({ preventScroll: true });
  }
  all() {
    const parts = [this.head(), this.picked(), this.tiles(), this.refused(this.value.errors, 'dataset_refused')];
    if (this.value.lengths.rows) parts.push(this.plots(), this.shares());
    parts.push(this.windows(), this.findings(), this.training(), this.control(), this.prefix(), ...this.compared(), this.logits(), this.read());
    return parts.filter(Boolean);
  }
  box(key, ...inside) { const node = el('section', 'ti-box'); node.append(el('h2', 'ti-boxhead', t(key)), ...inside.filter(Boolean)); node.setAttribute('aria-label', t(key)); return node; }
  // A table; columns that hold nothing but numbers stand to the right.
  rates(heads, rows) {
    const node = table('', heads, 'ti-rated'), isNumber = (cell) => /^[-+\u2013\d.,\s%]*$/.test(cell.textContent);
    node.append(...rows);
    heads.forEach((_, k) => { if (rows.every((row) => isNumber(row.cells[k]))) for (const row of node.rows) if (row.cells[k]) row.cells[k].classList.add('ti-num'); });
    return wide(node);
  }

  head() {
    const node = el('div', 'ti-facts'), { scan } = this, line = el('p'), parts = scan.parts;
    line.append(el('b', '', show(scan.name).replaceAll('\u00b7', ' ')), ' \u00b7 ', t('dataset_files', { n: number(scan.source.length) }), ' \u00b7 ', ...scan.sides.flatMap((side, q) => [q ? ' \u00b7 ' : '', scan.sides.length > 1 ? letter(q) + ' ' : '', foreign(side.tokenizer.ref), ', ', side.template ? foreign(side.template.ref) : t('dataset_own_template')]));
    node.append(line);
    if (!scan.complete) node.append(alertLine(t('dataset_unfinished', { there: number(parts.there), of: number(parts.of) })));
    for (const failed of scan.failed_files.slice(0, MOST_FAULTS)) node.append(alertLine(show(failed.file).replaceAll('\u00b7', ' ') + ': ' + failed.error.message));
    const skipped = scan.skipped_files;
    if (skipped && skipped.count) node.append(el('p', 'ti-dim', t('dataset_skipped', { n: number(skipped.count), files: show(skipped.files.slice(0, MOST_FAULTS).join(', ')).replaceAll('\u00b7', ' ') + (skipped.count > MOST_FAULTS ? ' \u2026' : '') })));
    return node;
  }
  picked() {
    const { list, opening, rowError, from } = this.held;
    if (!list) return null;
    const node = el('section', 'ti-picked'), head = el('p', 'ti-boxhead'), rows = el('ul'), { entry } = list, more = (entry.rows ?? 0) - entry.examples.length;
    node.setAttribute('aria-label', t('dataset_rows_of', { what: list.title }));
    head.append(el('b', '', list.title), ' ', el('span', 'ti-dim', more > 0 ? t('dataset_first', { n: number(entry.examples.length), of: number(entry.rows) }) : ''), el('span', 'ti-grow'), button('ti-btn', t('close'), () => this.closeRows()));
    for (const { file, row } of entry.examples) {
      const line = el('li'), name = rowName(file, row);
      if (from) { const open = focusable(button('ti-btn ti-row', name, () => this.bench.openRow(from, file, row)), 'row ' + name); open.setAttribute('aria-label', t('dataset_open_row', { row: name })); line.append(open); } else line.append(el('span', 'ti-at', name));
      if (opening === name) line.append(' ', el('span', 'ti-dim', t('dataset_opening')));
      rows.append(line);
    }
    node.append(head, rows);
    if (!from) node.append(el('p', 'ti-dim', t('dataset_rows_elsewhere')));
    if (rowError) node.append(alertLine(rowError));
    node.addEventListener('keydown', (event) => { if (event.key === 'Escape') { event.preventDefault(); event.stopPropagation(); this.closeRows(); } });
    return node;
  }
  tiles() {
    const { value } = this, at = (p) => value.lengths.percentiles.find((each) => each.p === p), tiles = [[number(value.rows.total), 'dataset_rows'], [this.count(t('dataset_refused'), value.rows.failed), 'dataset_refused'], [number(value.lengths.tokens), 'col_tokens']];
    for (const [p, key] of [[50, 'dataset_p50'], [99, 'dataset_p99'], [100, 'dataset_p100']]) if (at(p)) tiles.push([this.count(t(key), at(p), 'tokens'), key]);
    tiles.push([this.count(t('dataset_untrained'), value.training.nothing_trained), 'dataset_untrained'], [this.count(t('dataset_forged'), value.control.from_content), 'dataset_forged']);
    if (value.compare) tiles.push([number(['ids_differ', 'only_bytes_differ'].reduce((sum, name) => sum + value.compare[name].rows, 0)), 'dataset_differing']);
    const node = el('ul', 'ti-tiles');
    node.append(...tiles.map(([what, key]) => { const tile = el('li'), figure = el('b'); figure.append(what); tile.append(figure, el('span', 'ti-dim', t(key))); return tile; }));
    return node;
  }
  refused(errors, title) {
    if (!errors.length) return null;
    const rows = errors.flatMap((error) => error.reasons.map((reason, k) => rowOf([k ? '' : foreign(error.kind), k ? '' : error.stage, this.count(error.kind + ': ' + reason.reason, reason), shareText(reason.rows / this.total), foreign(reason.reason)])));
    return this.box(title, this.rates([t('dataset_kind'), t('dataset_stage'), t('dataset_rows'), t('dataset_of_all'), t('dataset_why')], rows));
  }
  // ---- plots --------------------------------------------------------------------------------------------------------
  plots() {
    const node = el('div', 'ti-plots'), figures = [this.histogram(this.value.lengths, 'dataset-lengths', t('dataset_lengths'), t('dataset_lengths_hint'))];
    if (this.value.windows.curve.length) figures.push(this.curve());
    node.append(...figures);
    return node;
  }
  histogram(lengths, name, title, hint) {
    const picture = new Picture(this.host, name, 190), bars = lengths.histogram, named = (bar) => number(bar.from) + ' \u2013 ' + number(bar.to - 1);
    picture.axis(Math.max(...bars.map((bar) => bar.rows)), t('dataset_rows'), true);
    picture.places(bars.map((bar) => number(bar.from)), t('dataset_tokens_axis'));
    bars.forEach((bar, k) => { if (bar.rows) { const y = Math.min(picture.y(bar.rows), picture.bottom - 1); picture.bar(picture.x(k) + picture.wide * 0.06, y, picture.wide * 0.88, picture.bottom - y, paneLook(0), named(bar) + ' ' + t('col_tokens') + ': ' + number(bar.rows) + ' ' + t('dataset_rows'), () => this.showRows(title + ', ' + named(bar), bar)); } });
    picture.done(title + '. ' + bars.filter((bar) => bar.rows).map((bar) => named(bar) + ' ' + bar.rows).join(', '));
    const rows = bars.filter((bar) => bar.rows).map((bar) => [named(bar), () => this.showRows(title + ', ' + named(bar), bar), number(bar.rows), shareText(bar.rows / lengths.rows)]);
    return figureOf(picture, title, hint, plotTable([t('dataset_tokens_axis'), t('dataset_rows'), t('dataset_of_all')], rows));
  }
  // The share that every window leaves out, on a doubling axis; the scan's own windows are marked.
  curve() {
    const picture = new Picture(this.host, 'dataset-windows', 190), { curve, given } = this.value.windows, { rows: total, tokens } = this.value.lengths, low = Math.max(1, curve[0].window), high = Math.max(low + 1, curve[curve.length - 1].window), span = Math.log2(high / low);
    const lines = [['dataset_over', curve.map((each) => [each.window, each.rows / total])], ['dataset_beyond', curve.map((each) => [each.window, each.tokens / Math.max(1, tokens)])]];
    picture.axis(Math.max(...lines.flatMap(([, line]) => line.map(([, share]) => 100 * share))), t('dataset_share_axis'), false);
    const x = (window) => picture.left + (picture.width - picture.right - picture.left) * Math.log2(Math.max(window, low) / low) / span, y = (share) => picture.y(100 * share);
    for (let tick = 2 ** Math.ceil(Math.log2(low)), step = 2 ** Math.max(1, Math.ceil(span / 7)); tick <= high; tick *= step) if (x(tick) > picture.left + 14 && x(tick) < picture.width - 26) picture.text(x(tick), picture.bottom + 14, number(tick), { 'text-anchor': 'middle' });
    picture.text((picture.left + picture.width - picture.right) / 2, picture.bottom + 29, t('dataset_window_axis'), { 'text-anchor': 'middle', fill: picture.colour('--dim') });
    lines.forEach(([, line], q) => picture.node.append(svg('polyline', { points: line.map(([window, share]) => x(window).toFixed(1) + ',' + y(share).toFixed(1)).join(' '), fill: 'none', stroke: picture.colour(paneLook(q)[0]), 'stroke-width': q ? 2 : 3, 'stroke-dasharray': PANE_DASH[q] })));
    for (const each of given) {
      const words = t('dataset_window', { n: number(each.window) }) + ': ' + number(each.over.rows) + ' ' + t('dataset_over') + ', ' + shareText(each.over.rows / total);
      picture.line(x(each.window).toFixed(1), picture.top, x(each.window).toFixed(1), picture.bottom, '--bad', { 'stroke-width': 1.2, 'stroke-dasharray': '4 3' });
      picture.mark(svg('circle', { cx: x(each.window).toFixed(1), cy: y(each.over.rows / total).toFixed(1), r: 5, fill: picture.colour('--paper'), stroke: picture.colour('--bad'), 'stroke-width': 2 }), words, () => { if (each.over.examples.length) this.showRows(t('dataset_window', { n: number(each.window) }) + ': ' + t('dataset_over'), each.over); });
    }
    picture.legend(lines.map(([key], q) => ({ words: t(key), look: paneLook(q), dash: PANE_DASH[q] })));
    picture.done(t('dataset_windows') + '. ' + given.map((each) => number(each.window) + ' ' + shareText(each.over.rows / total)).join(', '));
    const rows = curve.filter((_, k) => k % Math.ceil(curve.length / 40) === 0).map((each) => [number(each.window), null, number(each.rows), shareText(each.rows / total), number(each.tokens)]);
    return figureOf(picture, t('dataset_windows'), t('dataset_windows_hint'), plotTable([t('dataset_window_axis'), t('dataset_over'), t('dataset_of_all'), t('dataset_beyond')], rows));
  }
  // ---- tables -------------------------------------------------------------------------------------------------------
  shares() {
    const node = el('div', 'ti-columns'), names = { origin: 'part_', role: 'dataset_role_', script: 'script_' };
    for (const [kind, key] of Object.entries(names)) {
      const parts = this.value['by_' + kind];
      if (!parts.length) continue;
      const rows = parts.map((part) => rowOf([lookUp(key, part[kind]), number(part.tokens), shareText(part.share), this.count(t('dataset_by_' + kind) + ': ' + lookUp(key, part[kind]), part), ...[50, 99, 100].map((p) => { const at = part.percentiles.find((each) => each.p === p); return at ? this.count(lookUp(key, part[kind]) + ', ' + t('dataset_p' + p), at, 'tokens') : ''; })]));
      node.append(this.box('dataset_by_' + kind, this.rates(['', t('col_tokens'), t('dataset_of_tokens'), t('dataset_rows'), 'p50', 'p99', t('dataset_longest')], rows)));
    }
    return node;
  }
  windows() {
    const { given } = this.value.windows, total = this.value.lengths.rows;
    if (!given.length) return null;
    const effects = ['over', 'rejected', 'cut', 'dropped', 'trained_beyond'];
    const rows = given.map((each) => rowOf([number(each.window), ...effects.flatMap((name, k) => { const cell = this.count(t('dataset_window', { n: number(each.window) }) + ': ' + t('dataset_' + name), each[name]); return k ? [cell] : [cell, shareText(each.over.rows / total)]; }), number(each.cut.times + each.dropped.times), this.brokenBy(each)]));
    return this.box('dataset_given', this.rates([t('dataset_window_axis'), t('dataset_over'), t('dataset_of_all'), t('dataset_rejected'), t('dataset_cut'), t('dataset_dropped'), t('dataset_trained_beyond'), t('dataset_lost'), t('dataset_broken')], rows));
  }
  brokenBy({ window, broken }) {
    const node = el('ul', 'ti-brokenby');
    for (const each of broken) { const line = el('li'); line.append(this.count(t('dataset_window', { n: number(window) }) + ': ' + lookUp('broken_', each.what), each), ' ', lookUp('broken_', each.what)); node.append(line); }
    return node;
  }
  findings() {
    const { findings, side_findings: ofSide } = this.value;
    if (!findings.length && !ofSide.length) return this.box('view_findings', el('p', 'ti-dim', '\u2713 ' + t('nothing')));
    const named = (each) => [el('span', each.severity === 'error' ? 'ti-hot' : '', (SEVERITY_MARK[each.severity] || '') + ' ' + (each.severity ? t('severity_' + each.severity) : '')), foreign(each.rule), this.count(each.rule, each)];
    const rows = findings.map((each) => rowOf([...named(each), shareText(each.rows / this.total), number(each.times), said(each.title || '')]));
    const box = this.box('view_findings', rows.length ? this.rates(['', t('dataset_rule'), t('dataset_rows'), t('dataset_of_all'), t('change_times'), ''], rows) : el('p', 'ti-dim', t('dataset_no_row_finding')));
    if (ofSide.length) box.append(el('h3', 'ti-boxhead', t('dataset_side_findings')), el('p', 'ti-dim', t('dataset_side_said')), this.rates(['', t('dataset_rule'), t('dataset_rows'), ''], ofSide.map((each) => rowOf([...named(each), said(each.title || '')]))));
    return box;
  }
  training() {
    const { trained, masked, alarms, nothing_trained: nothing } = this.value.training, all = trained + masked;
    if (!all) return null;
    const line = el('p', 'ti-facts', t('dataset_trained', { n: number(trained), of: number(all), share: shareText(trained / all) }) + ' '), rows = alarms.map((each) => rowOf([lookUp('alarm_', each.alarm) + (each.of_side ? ' (' + t('dataset_of_side') + ')' : ''), this.count(each.alarm, each), shareText(each.rows / this.total)]));
    line.append(this.count(t('dataset_untrained'), nothing), ' ' + t('dataset_untrained'));
    return this.box('view_training', line, rows.length ? this.rates([t('dataset_alarm'), t('dataset_rows'), t('dataset_of_all')], rows) : null);
  }
  entries(title, pairs) { return this.box(title, this.rates(['', t('dataset_rows'), t('dataset_of_all'), t('change_times')], pairs.map(([name, each]) => rowOf([name, this.count(name, each), shareText(each.rows / this.total), number(each.times)])))); }
  control() {
    const { control, losses } = this.value;
    return this.entries('view_control', [...Object.entries(control), ...Object.entries(losses)].map(([name, each]) => [t('dataset_c_' + name), each]));
  }
  prefix() {
    const { prefix } = this.value;
    if (!prefix.steps) return null;
    const places = prefix.broken_by.slice(0, MOST_FAULTS).map((each) => [t('dataset_parted', { place: each.line ? t('template_line', { n: each.line }) : show(each.path).replaceAll('\u00b7', ' ') }), each]), box = this.entries('dataset_prefix', [[t('dataset_steps_broken'), prefix.rows.broken], [t('dataset_steps_refused'), prefix.rows.refused], ...places]);
    box.querySelector('h2').after(el('p', 'ti-facts', t('dataset_reused', { n: number(prefix.reused), of: number(prefix.tokens), share: shareText(prefix.reused_share) })));
    return box;
  }
  compared() {
    const { compare } = this.value;
    if (!compare) return [];
    const sides = ['equal', 'ids_differ', 'bytes_differ', 'only_ids_differ', 'only_bytes_differ', 'only_a_failed', 'only_b_failed', 'both_failed', 'not_compared'].filter((name) => compare[name]).map((name) => [t('dataset_ab_' + name), compare[name]]), box = this.entries('dataset_compare', sides), reasons = compare.reasons.map((each) => [lookUp('why_', each.reason_code), each]);
    box.querySelector('h2').after(el('p', 'ti-facts', t('dataset_delta', { n: (compare.delta > 0 ? '+' : '') + number(compare.delta), a: number(this.value.lengths.tokens), b: number(compare.lengths.tokens) })));
    const figures = el('div', 'ti-plots'), drawn = ['longer', 'shorter'].filter((name) => compare[name].rows);
    figures.append(...drawn.map((name) => this.histogram(compare[name], 'dataset-' + name, t('dataset_' + name), '')));
    return [box, drawn.length ? figures : null, reasons.length ? this.entries('dataset_reasons', reasons) : null, this.refused(compare.errors, 'dataset_refused_b')];
  }
  logits() {
    const { logits } = this.value;
    if (!logits) return null;
    const rows = logits.rows.map((row) => { const [top] = row.top; return rowOf([this.count(rowName(row.file, row.row), { rows: 1, n: row.row, examples: [row] }, 'n'), foreign(row.file), row.tokens === null ? '\u2013' : number(row.tokens), top ? foreign(top.piece ?? '') : '', top && typeof top.prob === 'number' ? top.prob.toFixed(4) : '\u2013', row.entropy === null ? '\u2013' : row.entropy.toFixed(4), row.kl === null ? '\u2013' : row.kl.toFixed(4), row.error ? foreign(row.error.message) : '']); });
    return this.box('dataset_logits', el('p', 'ti-facts', t('dataset_answered', { n: number(logits.answered), of: number(logits.asked), model: show(logits.model), seed: logits.seed })), this.rates([t('dataset_rows'), '', t('col_tokens'), t('dataset_next'), t('dataset_prob'), t('dataset_entropy'), 'KL', ''], rows));
  }
  read() { return this.entries('dataset_read', [...this.value.forms.map((each) => [t('dataset_form', { form: show(each.form) }), each]), ...this.value.last_roles.map((each) => [t('dataset_last', { role: show(each.role) }), each])]); }
}

const datasetTools = (bench, host, put) => {
  put('dataset_download', () => { const { summary } = bench.datasetState(); if (summary) saveFile('summary.json', JSON.stringify(summary, null, 1), 'application/json'); else bench.tellCopied('export_nothing'); });
};

VIEW_MODELS.dataset = { panel: keptPanel('dataset', buildDataset), tools: datasetTools };
