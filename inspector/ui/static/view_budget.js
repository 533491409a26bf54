// The budget: N, g and the policy to play with, the picture (budget_bar.js), what holds and what broke, and every part of the
// request with its tokens, as kept, cut or dropped and why. Also the small bar of parts in the heads.

const MOST_PARTS = 200, CHOOSE_MS = 250;  // rows shown at first; a pause in trying that makes N the page's

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
const moreButton = (n, act) => { const button = el('button', 'ti-btn', t('show_more', { n: number(n) })); button.type = 'button'; button.addEventListener('click', act); return button; };

// A group goes as one (a tool call with its results, a turn): its first message carries the tokens of all of it.
const droppedNote = (dropped, k, rejected) => {
  const { path, tokens, reason } = dropped[k], near = (other) => other && other.reason === reason && other.path.split('[')[0] === path.split('[')[0];
  if (rejected) return t('not_tried');
  if (!tokens && near(dropped[k - 1])) return t('dropped_together');
  const why = said(reason), note = tokens ? t('dropped_note', { n: number(tokens), reason: why }) : why;
  return !dropped[k + 1] || dropped[k + 1].tokens || !near(dropped[k + 1]) ? note : t('dropped_group', { note });
};

// ---- the controls: they are the form's fields ------------------------------------------------------------------------
const numberIn = (text) => { const written = text.replace(/[_, ]/g, ''); return /^\d{1,12}$/.test(written) ? +written : null; };
const buildBudget = (bench) => {
  const node = el('div', 'ti-tool ti-budget'), controls = el('div', 'ti-askbar'), windows = el('div', 'ti-windows'), out = el('div', 'ti-budgetout');
  const ui = { node, tried: undefined, panes: [], timer: 0, keep: () => ({}) }, field = (name) => bench.field(name);
  const N = () => (ui.tried !== undefined ? ui.tried : numberIn(field('context_window').value)), g = () => numberIn(field('max_new_tokens').value) || 0;
  const required = () => ui.panes.map(({ whole }) => (whole && whole.required) || 1), totals = () => ui.panes.map(({ whole }) => (whole ? whole.total : 1));
  const ask = () => asker.now();
  const bar = new BudgetBar(bench, {
    N, g, bounds: () => ({ low: Math.max(1, ...required()) + g(), high: Math.max(1, ...totals()) + g() }),
    tried: (value) => { ui.tried = value; nBox.value = value === null ? '' : String(value); ask(); },
    chosen: (pause) => { clearTimeout(ui.timer); ui.timer = setTimeout(() => { const value = ui.tried; ui.tried = undefined; if (value !== undefined) setField(bench, 'context_window', value === null ? '' : String(value)); }, pause || 0); },
  });
  const typed = (name, label, cls, hint) => { const box = focusable(textLine('budget_' + name, '', hint), name); box.inputMode = 'numeric'; box.addEventListener('input', () => { if (name === 'context_window') ui.tried = undefined; setField(bench, name, box.value); ask(); }); controls.append(labelled(label, box, cls)); return box; };
  const nBox = typed('context_window', 'context_window', 'ti-narrowask', 'context_window_hint'), gBox = typed('max_new_tokens', 'max_new_tokens', 'ti-narrowask', 'max_new_tokens_hint');
  const policy = selectOf('budget_policy', bench.config.policy.map((name) => [name, name + ' \u2013 ' + t('policy_' + name)]), field('policy').value, (value) => { setField(bench, 'policy', value); refresh(); });
  controls.append(labelled('policy', policy, 'ti-midask'));
  const first = typed('first_turns', 'first_turns', 'ti-narrowask', 'first_turns_hint'), order = typed('document_order', 'document_order', 'ti-midask', 'document_order_hint');
  const turns = bench.check('whole_turns', field('whole_turns').checked, (on) => { setField(bench, 'whole_turns', on); refresh(); });
  controls.append(turns);
  node.append(controls, windows, bar.node, budgetLegend(), out);

  const asker = new Asker(bench, 'budget', () => {
    if (!bench.slots.every((slot) => slot.answered)) return null;
    const { fields, panes } = bench.readShown(), value = N();
    return { at: bench.at, fields, panes: panes.map((pane) => ({ ...pane, ...(ui.tried !== undefined ? { context_window: value === null ? '' : String(value) } : {}) })) };
  }, (answer, busy, doing) => {
    node.classList.toggle('ti-waiting', Boolean(busy && doing));
    if (!answer || answer === ui.shown) { if (!ui.panes.length) out.replaceChildren(statusLine(doing || t('computing'))); return; }
    ui.shown = answer;
    if (answer.error) { out.replaceChildren(alertLine(answer.error)); return; }
    const wholes = new Map(ui.panes.flatMap(({ whole }) => (whole ? [[whole.key, whole]] : [])));
    ui.panes = answer.panes.map((pane) => { const whole = pane.whole || wholes.get(pane.key) || null; return { answer: { ...pane, total: whole ? whole.total : 0 }, whole }; });
    draw();
  });
  // The pictures that are at hand are not sent again; they decide nothing about the answer.
  asker.sent = (body) => Asker.prototype.sent.call(asker, { ...body, known: body.panes.map((_, q) => (ui.panes[q] && ui.panes[q].whole ? ui.panes[q].whole.key : null)) });
  const draw = () => {
    bar.draw(ui.panes);
    drawWindows(bench, windows, ui.panes);
    keepFocus(out, () => out.replaceChildren(budgetColumns(bench, ui.panes)));
  };
  const refresh = () => {
    const policyNow = field('policy').value, put = (box, name) => { if (document.activeElement !== box && box.value !== field(name).value) box.value = field(name).value; };
    if (ui.tried === undefined) put(nBox, 'context_window');
    put(gBox, 'max_new_tokens'); put(first, 'first_turns'); put(order, 'document_order');
    policy.value = policyNow; turns.firstChild.checked = field('whole_turns').checked;
    turns.hidden = field('whole_turns').closest('.ti-field').hidden;
    first.parentNode.hidden = field('first_turns').closest('.ti-field').hidden;
    order.parentNode.hidden = field('document_order').closest('.ti-field').hidden;
    bar.place();
    asker.soon(0);
  };
  ui.refresh = refresh;
  return ui;
};
// The windows that are known: of the panes' presets, and none.
const drawWindows = (bench, host, panes) => {
  const known = new Map();
  panes.forEach(({ answer }, q) => { if (answer.window) known.set(answer.window, [...(known.get(answer.window) || []), letter(q)]); });
  const use = (text, value) => focusable(button('ti-btn', text, () => setField(bench, 'context_window', value)), 'window ' + value);
  keepFocus(host, () => host.replaceChildren(el('span', 'ti-dim', t('windows_known')), ...[...known].map(([window, of]) => use(of.join(', ') + ': ' + number(window), String(window))), use(t('no_limit'), '')));
};
const budgetLegend = () => {
  const node = el('p', 'ti-barlegend');
  for (const [cls, key] of [['o-message', 'part_message'], ['o-tool', 'part_tool'], ['o-document', 'part_document'], ['o-template', 'part_template'], ['o-prompt', 'part_generation_prompt'], ['o-message ti-out', 'dropped'], ['ti-reserve', 'bar_reserved']]) { const item = el('span'); item.append(el('span', 'ti-swatch ' + cls), t(key)); node.append(item); }
  return node;
};

// ---- what was decided --------------------------------------------------------------------------------------------------
const budgetColumns = (bench, panes) => {
  const columns = el('div', 'ti-columns');
  panes.forEach(({ answer, whole }, q) => {
    const column = el('section'), title = paneTitle(bench, q);
    column.setAttribute('aria-label', letter(q) + ' ' + t('view_budget'));
    column.append(el('h2', 'ti-h2', letter(q) + (title ? ' \u00b7 ' + showButSpaces(title) : '')));
    if (answer.error || !whole) column.append(alertLine(answer.error || t('stale'))); else column.append(...budgetLines(answer), ...heldParts(bench, q, answer), partsTable(bench, q, answer, whole));
    columns.append(column);
  });
  return columns;
};
const budgetLines = (answer) => {
  const { budget } = answer;
  if (!budget) return [el('p', 'ti-dim', t('no_window', { n: number(answer.total) }))];
  const facts = el('p', 'ti-budgetfacts'), fact = (key) => { const one = el('span', 'ti-onefact'); one.append(el('span', 'ti-key', t('budget_' + key)), ' ' + (typeof budget[key] === 'number' ? number(budget[key]) : String(budget[key]))); facts.append(one, ' '); };
  for (const key of ['context_window', 'max_new_tokens', 'max_input_tokens', ...(answer.rejected ? [] : ['input_tokens']), 'required_tokens']) fact(key);
  facts.title = t(/^(tokens_|reject)/.test(budget.policy) ? 'budget_required_all' : 'budget_required_tokens_title');
  if (answer.rejected) return [el('p', 'ti-err ti-thin', t('budget_rejected', { required: number(budget.required_tokens), limit: number(budget.max_input_tokens) })), facts];
  const lost = answer.total - budget.input_tokens, line = el('p');
  line.append(el('b', '', t('budget_sent', { n: number(budget.input_tokens), total: number(answer.total) })), ' \u00b7 ', t(lost > 0 ? 'budget_left_out' : 'budget_all_fits', { n: number(lost), free: number(budget.max_input_tokens - budget.input_tokens) }));
  return [line, facts];
};
// What must hold, as ticks; then what the choice broke, each leading to its place.
const heldParts = (bench, q, { budget, rejected }) => {
  if (!budget) return [];
  const list = el('ul', 'ti-checks');
  for (const check of budget.checks) {
    const item = el('li', check.ok ? '' : 'ti-hot');
    item.append(el('b', '', (check.ok ? '\u2713 ' : '\u2717 ') + t('check_' + check.name)), ' ', el('span', 'ti-dim', said(check.why)));
    list.append(item);
  }
  if (!budget.broken.length) return [list];
  const broken = el('ol', 'ti-broken');
  budget.broken.forEach((entry, k) => {
    const item = el('li', 'ti-hot'), where = el('span', 'ti-findacts');
    item.append('\u26a0 ' + t('broken_' + entry.what) + ' ', where);
    const place = (kind, words, act) => where.append(focusable(placeLink(words, act), 'broken ' + q + ' ' + k + ' ' + kind));
    if (entry.path) place('field', entry.path, () => jumpToPath(bench, q, entry.path, null));
    if (entry.token !== null && !rejected) place('token', t('finding_token', { n: number(entry.token) }), () => goNear(bench, q, entry.token));
    broken.append(item);
  });
  return [list, el('p', 'ti-key', t('broken_title', { n: budget.broken.length })), broken];
};
const placeLink = (words, act) => { const node = button('ti-place', showButSpaces(words), act); return node; };
// The token at a place in the kept input; the last one for a place after all of them.
const goNear = (bench, q, token) => { const { n } = bench.state.own.panes[q], i = Math.min(token, n - 1); if (i >= 0) bench.go(q, i, i + 1); };

// One row a unit of the request, then what the template and the tokenizer added; the first numbers sum to what is sent.
const partsTable = (bench, q, answer, whole, most = MOST_PARTS) => {
  const node = table(letter(q) + ' \u00b7 ' + t('parts'), [t('col_part'), t('col_sent'), t('col_lost'), t('col_why')], 'ti-counted ti-fits'), rows = unitRows(answer, whole);
  for (const row of rows.slice(0, most)) node.append(partRow(bench, q, whole, row));
  if (rows.length > most) { const row = el('tr'), cell = el('td'); cell.colSpan = 4; cell.append(moreButton(rows.length - most, () => node.replaceWith(partsTable(bench, q, answer, whole, most + 1000)))); row.append(cell); node.append(row); }
  const total = rowOf([t('part_total'), number(answer.sent.reduce((sum, n) => sum + n, 0)), number(rows.reduce((sum, { lost }) => sum + lost, 0)), ''], 'ti-total');
  node.append(total);
  return node;
};
const unitRows = (answer, whole) => {
  const { budget, rejected } = answer, cut = new Map(budget ? budget.cut.map((each) => [each.path, each.tokens_lost]) : []), dropped = new Map(budget ? budget.dropped.map((each, k) => [each.path, k]) : []);
  const rows = whole.units.map((unit, k) => {
    const row = { key: unit.path, unit, sent: answer.sent[k], lost: Math.max(0, unit.tokens - answer.sent[k]) };
    if (rejected) return { ...row, sent: answer.sent[k], lost: 0, cls: 'ti-dropped', mark: '\u2717 ', state: unit.required || !dropped.has(unit.path) ? 'required' : 'dropped', why: dropped.has(unit.path) ? t('not_tried') : '' };
    if (dropped.has(unit.path)) return { ...row, cls: 'ti-dropped', mark: '\u2717 ', state: 'dropped', why: droppedNote(budget.dropped, dropped.get(unit.path), false) };
    if (cut.has(unit.path)) return { ...row, lost: cut.get(unit.path), cls: 'ti-cut', mark: '\u2702 ', state: 'cut', why: t('tokens_lost', { n: number(cut.get(unit.path)) }) };
    return { ...row, cls: 'ti-kept', mark: '\u2713 ', state: 'kept', why: budget && unit.required ? t('required') : '' };
  });
  whole.overhead.forEach((key, k) => {
    const at = whole.units.length + k, had = whole.runs[0].reduce((sum, part, i) => sum + (part === at ? whole.runs[2][i] : 0), 0);
    if (had || answer.sent[at]) rows.push({ key, unit: null, sent: answer.sent[at], lost: Math.max(0, had - answer.sent[at]), cls: '', mark: '', state: '', why: '' });
  });
  return rows;
};
const partRow = (bench, q, whole, { key, unit, sent, lost, cls, mark, state, why }) => {
  const name = el('span'), link = focusable(button('ti-link', partName(key), () => { if (sent) bench.pickPart(q, key); else jumpToPath(bench, q, key, null); }), 'part ' + q + ' ' + key), fate = el('span', '');
  name.append(el('span', 'ti-swatch ' + partClass(key) + (state === 'dropped' ? ' ti-out' : '')), link, ...(unit ? [el('span', 'ti-dim', ' ' + [showButSpaces(unit.role), showButSpaces(unit.text)].filter(Boolean).join(' \u00b7 '))] : []));
  if (state) fate.append(el('b', '', mark + t(state)), why ? el('span', 'ti-dim', ' ' + why) : '');
  const row = rowOf([name, number(sent), lost ? '\u2212' + number(lost) : '', fate], cls);
  row.addEventListener('mouseenter', () => bench.point({ kind: 'part', q, key }));
  row.addEventListener('mouseleave', () => bench.point(null));
  return row;
};

// ---- what can be taken away --------------------------------------------------------------------------------------------
const budgetText = (bench, q) => {
  const ui = bench.kept && bench.kept.budget, pane = ui && ui.panes[q];
  if (!pane || !pane.whole || !pane.answer.sent) return null;
  const { answer, whole } = pane, { budget } = answer, lines = [];
  if (budget) lines.push((answer.rejected ? 'rejected: ' + budget.required_tokens + ' tokens are required, ' : budget.input_tokens + ' of ') + budget.max_input_tokens + ' input tokens; window ' + budget.context_window + ' less ' + budget.max_new_tokens + ' for output; policy ' + budget.policy);
  else lines.push(whole.total + ' tokens; no window is given');
  for (const { key, sent, lost, state, why } of unitRows(answer, whole)) lines.push((state || '').padEnd(9) + key.padEnd(20) + String(sent).padStart(8) + (lost ? '  lost ' + lost : '') + (why ? '  ' + why : ''));
  for (const entry of budget ? budget.broken : []) lines.push('broken   ' + entry.what + (entry.path ? ' at ' + entry.path : '') + (entry.token === null ? '' : ' token ' + entry.token));
  for (const check of budget ? budget.checks : []) lines.push((check.ok ? 'ok       ' : 'FAILED   ') + check.name + ': ' + check.why);
  return lines.join('\n') + '\n';
};

VIEW_MODELS.budget = { panel: keptPanel('budget', buildBudget), ofFailed: true, get exports() { return [['budget_text', 'budget.txt', 'text/plain', budgetText], ...EXPORTS.budget]; } };
