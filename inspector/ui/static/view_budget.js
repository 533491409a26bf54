// Tokens by part of the prompt, and the budget decision: the numbers, then every unit of the request as kept, cut or dropped.

const MOST_PARTS = 200;  // rows shown at first

const partName = (key) => (/^[a-z_]+$/.test(key) ? t('part_' + key) : key);
const partClass = (key) => (/^messages\[\d*[13579]\]$/.test(key) ? 'ti-odd ' : '') + 'o-' + ({ generation_prompt: 'prompt', inserted: 'special', messages: 'message', tools: 'tool', documents: 'document' }[splitPath(key)[0]] || key);

// One bar: a part as wide as its share of the tokens. Hovering lights the part's tokens; the table says it in words.
// A bar of the same parts is kept and only made to fit: a long conversation has hundreds.
const showPartBar = (host, pane, q, bench) => {
  const parts = countParts(pane), keys = parts.map(({ key }) => key).join('\u0000');
  let bar = host.firstChild;
  if (!bar || bar.keys !== keys) { bar = newPartBar(parts, q, bench); bar.keys = keys; host.replaceChildren(bar); }
  parts.forEach(({ n }, k) => { const piece = bar.children[k]; if (piece.tokens !== n) { piece.tokens = n; piece.style.flexGrow = n; } });
  bar.setAttribute('aria-label', letter(q) + ' ' + t('parts') + ': ' + parts.slice(0, 12).map(({ key, n }) => partName(key) + ' ' + n).join(', '));
};
const newPartBar = (parts, q, bench) => {
  const bar = el('div', 'ti-parts');
  bar.setAttribute('role', 'img');
  bar.append(...parts.map(({ key }) => { const piece = el('span', 'ti-part-piece ' + partClass(key)); piece.key = key; return piece; }));
  bar.addEventListener('mouseover', ({ target }) => {
    if (!target.key) return;
    target.title = partName(target.key) + ': ' + t('count_tokens', { n: number(target.tokens) });
    bench.point({ kind: 'part', q, key: target.key });
  });
  bar.addEventListener('click', ({ target }) => { if (target.key) bench.pickPart(q, target.key); });
  bar.addEventListener('mouseleave', () => bench.point(null));
  return bar;
};
const partTable = (pane, q, bench, most = MOST_PARTS) => {
  const parts = countParts(pane), table = el('table', 'ti-table ti-counted'), max = Math.max(1, ...parts.map(({ n }) => n));
  table.append(el('caption', '', letter(q) + ' \u00b7 ' + t('parts')));
  const head = el('tr'); head.append(...['part', 'tokens', ''].map((key) => el(key ? 'th' : 'td', '', key && t('col_' + key)))); table.append(head);
  for (const { key, n } of parts.slice(0, most)) {
    const row = el('tr'), name = el('td'), button = el('button', 'ti-link', partName(key)), amount = el('td', 'ti-barcell'), bar = el('span', 'ti-bar ' + partClass(key));
    button.type = 'button';
    button.addEventListener('click', () => bench.pickPart(q, key));
    const role = bench.textAt(key + '.role');
    bar.style.width = (100 * n) / max + '%';
    name.append(el('span', 'ti-swatch ' + partClass(key)), button, ...(role ? [el('span', 'ti-dim', ' ' + show(role.slice(0, 24)))] : []));
    amount.append(bar, el('span', 'ti-barnum', (100 * n / pane.n).toFixed(1) + ' %'));
    row.append(name, el('td', 'ti-num', number(n)), amount);
    row.addEventListener('mouseenter', () => bench.point({ kind: 'part', q, key }));
    row.addEventListener('mouseleave', () => bench.point(null));
    table.append(row);
  }
  if (parts.length > most) { const row = el('tr'), cell = el('td'); cell.append(moreButton(parts.length - most, () => table.replaceWith(partTable(pane, q, bench, most + 1000)))); row.append(cell); table.append(row); }
  const total = el('tr', 'ti-total'); total.append(el('td', '', t('part_total')), el('td', 'ti-num', number(pane.n)), el('td')); table.append(total);
  return table;
};
const moreButton = (n, act) => { const button = el('button', 'ti-btn', t('show_more', { n: number(n) })); button.type = 'button'; button.addEventListener('click', act); return button; };

const budgetLines = (pane) => {
  const budget = pane.budget;
  if (!budget) return [el('p', 'ti-note', t('no_window'))];
  const rejected = budget.input_tokens > budget.max_input_tokens;
  const fact = (key) => { const line = el('p'); line.append(el('span', 'ti-key', t('budget_' + key)), ' ' + (typeof budget[key] === 'number' ? number(budget[key]) : String(budget[key] ?? '\u2013'))); return line; };
  const unit = (cls, mark, path, note) => { const line = el('p', cls); line.append(el('span', 'ti-key', mark + ' '), show(path), el('span', 'ti-dim', note ? '  ' + note : '')); return line; };
  const units = [
    ...budget.kept.map((path) => (rejected ? ['ti-dropped', '\u2717 ' + t('required'), path, ''] : ['ti-kept', '\u2713 ' + t('kept'), path, ''])),
    ...budget.cut.map((c) => ['ti-cut', '\u2702 ' + t('cut'), c.path, t('tokens_lost', { n: number(c.tokens_lost) })]),
    ...budget.dropped.map((d, k) => ['ti-dropped', '\u2717 ' + t('dropped'), d.path, droppedNote(budget.dropped, k, rejected)]),
  ];
  const list = el('div', 'ti-units'), add = (from, to) => list.append(...units.slice(from, to).map((row) => unit(...row)));
  add(0, 500);
  if (units.length > 500) { const more = moreButton(units.length - 500, () => { more.remove(); add(500); }); list.append(more); }
  const verdict = rejected ? [el('p', 'ti-err ti-thin', t('budget_rejected', { required: number(budget.required_tokens), limit: number(budget.max_input_tokens) }))] : [];
  const names = ['context_window', 'max_new_tokens', 'max_input_tokens', 'policy', ...(rejected ? [] : ['input_tokens']), 'required_tokens'];
  return [...verdict, ...names.map(fact), el('p', 'ti-dim', t(/^(tokens_|reject)/.test(budget.policy) ? 'budget_required_all' : 'budget_required_tokens_title')), list];
};
// A group goes as one (a tool call with its results, a turn): its first message carries the tokens of all of it.
const droppedNote = (dropped, k, rejected) => {
  const { path, tokens, reason } = dropped[k], near = (other) => other && other.reason === reason && other.path.split('[')[0] === path.split('[')[0];
  if (rejected) return t('not_tried');
  if (!tokens && near(dropped[k - 1])) return t('dropped_together');
  const why = said(reason), note = tokens ? t('dropped_note', { n: number(tokens), reason: why }) : why;
  return !dropped[k + 1] || dropped[k + 1].tokens || !near(dropped[k + 1]) ? note : t('dropped_group', { note });
};
const drawBudget = (state, host, bench) => {
  const columns = el('div', 'ti-columns');
  state.own.panes.forEach((pane, q) => { const column = el('section'); column.append(partTable(pane, q, bench), ...budgetLines(pane)); columns.append(column); });
  host.replaceChildren(columns);
};

VIEW_MODELS.budget = { panel: drawBudget };
