// Next-token probabilities of both panes on one list: the union of both top-k, most probable first.

const drawLogits = (state, host, bench) => {
  const bar = el('div', 'ti-logbar'), go = button('ti-btn', t(state.logitsBusy ? 'logits_busy' : 'compute_logits'), () => askLogits(bench)), answer = state.logits;
  go.disabled = Boolean(state.logitsBusy);
  go.setAttribute('aria-busy', go.disabled);
  bar.append(go, el('span', 'ti-dim', state.logitsBusy ? t('logits_busy_long') : answer && state.logitsStale ? t('logits_stale') : ''));
  host.replaceChildren(bar);
  host.classList.toggle('ti-stale', Boolean(answer && (state.logitsStale || state.logitsBusy)));
  if (!answer) { host.append(state.logitsBusy ? el('div', 'ti-working', t('logits_busy_long')) : el('p', 'ti-note', t('logits_none'))); return; }
  answer.panes.forEach((pane, q) => {
    const line = el('p', pane.error ? 'ti-err' : 'ti-dim');
    line.textContent = letter(q) + ' \u00b7 ' + (pane.error ? pane.error.text : t('logits_head', { model: pane.model, device: pane.device, dtype: pane.dtype, entropy: pane.entropy.toFixed(3) }));
    host.append(line);
  });
  const most = Math.max(0, ...answer.panes.map((pane) => (pane.top || []).length));
  if (most) host.append(logitsTable(answer.panes), el('p', 'ti-dim', t('logits_missing', { n: most })));
};
// A token as the Tokens view shows it: its text where its bytes are text, else its bytes.
const spelled = (entry) => {
  if (!entry.bytes) return show(entry.piece ?? '');
  try { return show(strictUtf8.decode(rawBytes(entry.bytes))); } catch (error) { return hex(rawBytes(entry.bytes)); }
};
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const logitsTable = (panes) => {
  const byToken = new Map();
  panes.forEach((pane, q) => (pane.top || []).forEach((entry, rank) => {
    const key = entry.id + '\u0000' + entry.piece, row = byToken.get(key) || { id: entry.id, piece: entry.piece, text: spelled(entry), of: [] };
    row.of[q] = { ...entry, rank: rank + 1 };
    byToken.set(key, row);
  }));
  const best = (row) => Math.max(...row.of.filter(Boolean).map((entry) => entry.prob));
  const table = el('table', 'ti-logits'), head = el('tr');
  for (const text of [t('id'), t('col_token'), ...panes.map((_, q) => letter(q) + ': ' + t('logits_columns'))]) head.appendChild(el('th', '', text));
  table.appendChild(head);
  for (const row of [...byToken.values()].sort((x, y) => best(y) - best(x))) {
    const line = el('tr');
    line.append(el('td', 'ti-num', String(row.id)), pieceCell(row));
    panes.forEach((_, q) => line.append(barCell(row.of[q], q)));
    table.appendChild(line);
  }
  return table;
};
const pieceCell = (row) => { const cell = el('td', 'ti-piece', row.text); cell.title = t('piece') + ': ' + show(row.piece ?? ''); return cell; };
const barCell = (entry, q) => {
  const cell = el('td', 'ti-barcell');
  if (!entry) { const none = el('span', 'ti-dim', '\u2013'); none.title = t('logits_not_among'); cell.append(none); return cell; }
  const bar = el('span', 'ti-bar ti-bar' + q);
  bar.style.width = Math.max(0.5, entry.prob * 100) + '%';
  cell.append(bar, el('span', 'ti-barnum', (entry.prob * 100).toFixed(2) + ' %  #' + entry.rank + '  ' + entry.logit.toFixed(2)));
  return cell;
};

const askLogits = async (bench) => {
  const { state } = bench;
  state.logitsBusy = true;
  if (bench.view === 'logits') bench.draw(true);
  const answer = await bench.server.logits({ session: bench.session, model: bench.modelRef(), ...bench.readShown() });
  Object.assign(state, { logitsBusy: false, logitsStale: false });
  if (typeof answer === 'string') state.logits = JSON.parse(answer); else bench.lost(true);
  if (bench.view === 'logits') bench.draw(true);
};

VIEW_MODELS.logits = { panel: drawLogits, opened: (bench) => { if (!bench.state.logitsBusy && (!bench.state.logits || bench.state.logitsStale)) askLogits(bench); } };
