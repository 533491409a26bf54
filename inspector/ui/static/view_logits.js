// Next-token probabilities of both panes on one list: the union of both top-k, most probable first.

const drawLogits = (state, host, bench) => {
  host.replaceChildren();
  const bar = el('div', 'ti-logbar'), button = el('button', 'ti-btn', t('compute_logits'));
  button.type = 'button';
  button.addEventListener('click', () => bench.askLogits());
  bar.append(button, el('span', 'ti-dim', state.logitsBusy ? t('logits_busy') : state.logitsStale ? t('logits_stale') : ''));
  host.append(bar);
  if (state.logitsBusy) { button.disabled = true; host.append(el('div', 'ti-working', t('logits_busy_long'))); }
  const answer = state.logits;
  if (!answer) { if (!state.logitsBusy) host.append(el('p', 'ti-note', t('logits_none'))); return; }
  host.classList.toggle('ti-stale', Boolean(state.logitsStale));
  answer.panes.forEach((pane, q) => {
    const line = el('p', pane.error ? 'ti-err' : 'ti-dim');
    line.textContent = 'AB'[q] + ' \u00b7 ' + (pane.error ? pane.error.text : t('logits_head', { model: pane.model, device: pane.device, dtype: pane.dtype, entropy: pane.entropy.toFixed(3) }));
    host.append(line);
  });
  host.append(logitsTable(answer.panes));
};
const logitsTable = (panes) => {
  const byToken = new Map();
  panes.forEach((pane, q) => (pane.top || []).forEach((entry, rank) => {
    const key = entry.id + '\u0000' + entry.piece, row = byToken.get(key) || { id: entry.id, piece: entry.piece, of: [] };
    row.of[q] = { ...entry, rank: rank + 1 };
    byToken.set(key, row);
  }));
  const best = (row) => Math.max(...row.of.filter(Boolean).map((entry) => entry.prob));
  const table = el('table', 'ti-logits'), head = el('tr');
  for (const text of [t('id'), t('token'), ...panes.map((_, q) => 'AB'[q])]) head.appendChild(el('th', '', text));
  table.appendChild(head);
  for (const row of [...byToken.values()].sort((x, y) => best(y) - best(x))) {
    const line = el('tr');
    line.append(el('td', 'ti-num', String(row.id)), el('td', 'ti-piece', show(row.piece)));
    panes.forEach((_, q) => line.append(barCell(row.of[q], q)));
    table.appendChild(line);
  }
  return table;
};
const barCell = (entry, q) => {
  const cell = el('td', 'ti-barcell');
  if (!entry) { cell.append(el('span', 'ti-dim', '\u2013')); return cell; }
  const bar = el('span', 'ti-bar ti-bar' + q);
  bar.style.width = Math.max(0.5, entry.prob * 100) + '%';
  cell.append(bar, el('span', 'ti-barnum', (entry.prob * 100).toFixed(2) + ' %  #' + entry.rank + '  ' + entry.logit.toFixed(2)));
  return cell;
};

VIEW_MODELS.logits = { panel: drawLogits };
