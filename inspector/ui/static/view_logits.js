// The Logits tab: what the model says next to each pane, on one list, how far apart they are, and what follows from it.
// The parts below the table (sampler, walk, what-ifs, heat) are in logits_parts.js.

const DTYPES = ['float32', 'bfloat16', 'float16'], TIMES = ['template', 'tokenization', 'queue', 'load', 'prefill', 'server', 'decode'];
const PIN_ORDER = ['eos', 'turn_end', 'tool_call', 'think', 'typed'];

// A token as the Tokens view shows it: its text where its bytes are text, else its bytes; an id without a token says so.
const spelledToken = ({ piece, bytes }) => {
  if (piece === null || piece === undefined) return t('no_token');
  const raw = Uint8Array.from((bytes.match(/../g) || []), (pair) => parseInt(pair, 16));
  try { return show(strictUtf8.decode(raw)) || show(piece); } catch (error) { return hex(raw); }
};
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const nats = (value) => (value === null || value === undefined ? '?' : Math.abs(value) >= 0.001 || value === 0 ? value.toFixed(3) : value.toExponential(1));

const buildLogits = (bench, kept) => {
  const { state } = bench, node = el('div', 'ti-tool ti-model'), out = el('div', 'ti-nexthost'), bar = el('div', 'ti-logbar ti-verdictbar'), dtype = el('select'), watch = textLine('logits_watch', kept.watch, 'watch_hint');
  const go = button('ti-btn', '', () => { agreeServer(bench); server.refresh(); ask(); }), stop = button('ti-btn', t('give_up'), () => asker.giveUp()), said = el('span', 'ti-dim');
  for (const name of DTYPES) { const option = el('option', '', name); option.value = name; dtype.append(option); }
  dtype.dataset.in = 'logits_dtype'; dtype.value = state.dtype || DTYPES[0];
  said.setAttribute('role', 'status');
  const asker = new ModelAsker(bench, 'verdict', () => mark());
  const ask = async () => {
    state.logitsBusy = true; state.dtype = dtype.value;
    const answer = await asker.ask({ ...bench.readShown(), typed: watch.value });
    if (answer === null) return;
    state.logitsBusy = false;
    if (!answer.cancelled) { state.logits = answer; state.logitsStale = false; }
    mark(); draw(); parts.refresh(true);
  };
  const mark = () => {
    go.textContent = t(state.logitsBusy ? 'logits_busy' : 'compute_logits'); go.disabled = Boolean(state.logitsBusy); go.setAttribute('aria-busy', go.disabled);
    stop.hidden = !state.logitsBusy;
    const text = state.logitsBusy ? asker.doing : state.logits && state.logitsStale ? t('logits_stale') : '';
    if (said.textContent !== text) said.textContent = text;
    node.classList.toggle('ti-stale', Boolean(state.logits && (state.logitsStale || state.logitsBusy)));
    if (!state.logits) out.replaceChildren(state.logitsBusy ? el('div', 'ti-working', t('logits_busy_long')) : el('p', 'ti-note', serverAgreed(bench) ? t('logits_none') : t('server_unasked', { url: show(serverOf(bench).url) })));
    const onServer = Boolean(serverOf(bench).url);
    dtype.disabled = onServer; dtype.title = onServer ? t('server_own_dtype') : '';
  };
  const draw = () => { if (state.logits) keepFocus(out, () => out.replaceChildren(...verdictParts(state.logits, parts))); };
  dtype.addEventListener('change', ask);
  watch.addEventListener('change', ask);
  const server = serverPart(bench, () => ask(), () => parts.refresh(false));
  bar.append(go, stop, labelled('dtype', dtype, 'ti-inline'), labelled('watch_token', watch, 'ti-inline'), said);
  const parts = logitsParts(bench, kept.parts || {});
  node.append(server.node, bar, out, parts.node);
  const ui = { node, ask, keep: () => ({ watch: watch.value, parts: parts.keep() }), refresh: () => { server.refresh(); mark(); draw(); parts.refresh(false); } };
  return ui;
};

const verdictParts = (answer, parts) => {
  if (answer.error) return [alertLine(answer.error)];
  const found = answer.sides.map((side, q) => sideLine(answer, side, q));
  if (!answer.rows.length) return found;
  const others = answer.sides.map((side, q) => [side, q]).filter(([side]) => !side.error).slice(1);
  return [...found, ...answer.distances.map((distance, k) => distanceLine(distance, others[k][1], answer.backend === 'openai')), wideTable(nextTable(answer, parts)), el('p', 'ti-dim', verdictNote(answer))];
};
const wideTable = (node) => { const frame = el('div', 'ti-logframe'); frame.append(node); return frame; };
const verdictNote = (answer) => [
  t('bars_scaled', { most: percent(mostProbable(answer)) }),
  answer.rows_of_model === null ? t('listed_only') : t('three_sizes', { rows: number(answer.rows_of_model), size: number(answer.size_of_tokenizer), vocab: number(answer.vocab_size) }),
  answer.backend === 'openai' ? (answer.dtype === 'unknown' ? t('server_dtype_unknown') : t('server_dtype_note', { dtype: answer.dtype })) : t('dtype_note', { dtype: answer.dtype }),
].join(' ');
const mostProbable = (answer) => Math.max(1e-9, ...answer.rows.flatMap((row) => row.cells.map((cell) => (cell ? cell.prob : 0))));

const sideLine = (answer, side, q) => {
  const line = el('div', side.error ? 'ti-err' : 'ti-sideline');
  if (side.error) { line.setAttribute('role', 'alert'); line.textContent = letter(q) + ' \u00b7 ' + side.error.text; return line; }
  const facts = [t('logits_head', { model: answer.model, device: answer.device, dtype: answer.dtype, entropy: side.entropy === null ? '?' : side.entropy.toFixed(3) }), t('side_tokens', { n: number(side.tokens), kept: number(side.reused) })];
  if (side.note) facts.push('\u26a0 ' + said(side.note));
  if (side.without_token > 0) facts.push('\u26a0 ' + t('mass_without_token', { mass: percent(side.without_token) }));
  line.append(el('b', '', letter(q)), el('span', 'ti-dim', facts.join(' \u00b7 ')), timeBar(side.timings_ms));
  return line;
};
// Where the time went, as parts of a bar; the words beside it say the same.
const timeBar = (timings) => {
  const box = el('span', 'ti-times'), bar = el('span', 'ti-timebar'), total = TIMES.reduce((sum, name) => sum + (timings[name] || 0), 0), words = [];
  for (const name of TIMES) {
    const ms = timings[name] || 0;
    if (ms < 0.05) continue;
    const part = el('span', 'ti-time ti-time-' + name);
    part.style.flexGrow = ms / total; part.title = t('time_' + name) + ' ' + ms.toFixed(1) + ' ms';
    bar.append(part); words.push(t('time_' + name) + ' ' + (ms < 10 ? ms.toFixed(1) : Math.round(ms)) + ' ms');
  }
  bar.setAttribute('aria-hidden', 'true');
  box.append(bar, el('span', 'ti-dim', words.join(' \u00b7 ')));
  return box;
};
// A figure in nats; where only the most probable tokens are known, what it lies between.
const distanceFigure = (distance, key) => {
  const found = distance[key] === null && distance.bounds && distance.bounds[key];
  return found ? nats(found[0]) + '\u2026' + (found[1] === null ? '\u221e' : nats(found[1])) : nats(distance[key]);
};
const leastJs = (distance) => distance.js ?? (distance.bounds ? distance.bounds.js[0] : 0);
const distanceLine = (distance, q, onServer) => {
  const line = el('div', 'ti-distance'), name = letter(q), meter = el('span', 'ti-meter'), fill = el('span', 'ti-meterfill');
  const { bounds } = distance, figure = (key) => distanceFigure(distance, key);
  fill.style.width = 100 * Math.min(1, leastJs(distance) / Math.LN2) + '%';
  meter.append(fill); meter.title = t('js_scale'); meter.setAttribute('aria-hidden', 'true');
  const figures = ['KL(A\u2016' + name + ') ' + figure('kl_ab'), 'KL(' + name + '\u2016A) ' + figure('kl_ba'), 'JS ' + figure('js') + ' nats'];
  if (distance.max_logit_change !== null) figures.push(t(onServer ? 'logprob_change' : 'logit_change', { change: distance.max_logit_change.toFixed(3) }));
  if (bounds) figures.push(t('missing_mass', { a: percent(bounds.missing_a), b: percent(bounds.missing_b), name }));
  line.append(el('b', '', name + ' \u2194 A'), meter, el('span', '', figures.join(' \u00b7 ')), el('span', distance.top1_changed ? 'ti-changedtop' : 'ti-dim', (distance.top1_changed ? '\u26a0 ' : '\u2713 ') + t(distance.top1_changed ? 'top1_changed' : 'top1_same')));
  return line;
};

const nextTable = (answer, parts) => {
  const node = el('table', 'ti-logits'), head = el('tr'), panes = answer.sides.map((_, q) => q).filter((q) => !answer.sides[q].error), most = mostProbable(answer);
  for (const text of [t('id'), t('col_token'), ...panes.map((q) => letter(q) + ': ' + t(answer.backend === 'openai' ? 'logprob_columns' : 'logits_columns'))]) { const cell = el('th', '', text); cell.scope = 'col'; head.append(cell); }
  node.append(head);
  const texts = new Map();
  for (const row of answer.rows) texts.set(spelledToken(row), (texts.get(spelledToken(row)) || 0) + 1);
  let watching = false;
  const top = (row) => row.cells.some((cell) => cell && cell.rank <= TOP_ROWS);
  for (const row of answer.rows) {
    if (!watching && !top(row)) {
      watching = true;
      const line = el('tr', 'ti-watched'), cell = el('td', '', t('watched_rows')); cell.colSpan = 2 + panes.length;
      line.append(cell); node.append(line);
    }
    node.append(nextRow(row, panes, most, texts, parts, answer.backend === 'openai'));
  }
  return node;
};
const TOP_ROWS = 20;
const nextRow = (row, panes, most, texts, parts, onServer) => {
  const line = el('tr', row.has_token ? '' : 'ti-notoken'), text = spelledToken(row), cell = el('td', 'ti-piece'), link = focusable(button('ti-link', text, () => parts.goOn(row)), 'row' + row.id);
  link.title = t('go_on_with') + '\n' + t('piece') + ': ' + show(row.piece ?? '\u2013') + '\n' + t('bytes') + ': ' + (row.bytes ? spacedHex(row.bytes) : t('no_bytes'));
  cell.append(row.has_token ? link : el('i', '', text));
  if (texts.get(text) > 1 && row.has_token) { const mark = el('span', 'ti-dim', ' \u2261'); mark.title = t('same_text_other_id'); cell.append(mark); }
  for (const pin of row.pins.slice().sort((a, b) => PIN_ORDER.indexOf(a.why) - PIN_ORDER.indexOf(b.why))) { const tag = el('span', 'ti-pin', t('pin_' + pin.why)); tag.title = show(pin.text); cell.append(' ', tag); }
  line.append(el('td', 'ti-num', String(row.id)), cell);
  const [first] = panes;
  for (const q of panes) line.append(nextCell(row.cells[q], q, most, q === first ? null : row.cells[first], onServer));
  return line;
};
// Bar, probability, rank; and how many ranks it stands higher or lower than in A.
const nextCell = (entry, q, most, before, onServer) => {
  const cell = el('td', 'ti-barcell');
  if (!entry) { const none = el('span', 'ti-dim', '\u2013'); none.title = t('logits_not_among'); cell.append(none); return cell; }
  const bar = el('span', 'ti-bar ti-bar' + q), words = el('span', 'ti-barnum', percent(entry.prob) + '  #' + number(entry.rank)), moved = before ? before.rank - entry.rank : 0;
  bar.style.width = Math.max(0.5, (100 * entry.prob) / most) + '%';
  if (moved) words.append(el('span', 'ti-dim', ' ' + (moved > 0 ? '\u2191' : '\u2193') + number(Math.abs(moved))));
  words.append(el('span', 'ti-dim ti-lognum', '  ' + entry.logprob.toFixed(2) + (entry.logit === null || onServer ? '' : '  ' + entry.logit.toFixed(2))));
  cell.append(bar, words);
  return cell;
};

VIEW_MODELS.logits = { panel: keptPanel('logits', buildLogits), opened: (bench) => { if (serverAgreed(bench) && !bench.state.logitsBusy && (!bench.state.logits || bench.state.logitsStale)) bench.kept.logits.ask(); } };
