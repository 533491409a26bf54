// What the rules found in each pane, and what its template can do (the capability card). It probes, so it is asked for while
// its tab is open and the panes are at rest: one request in flight a pane, the newest wish wins. Nothing is judged here.

const FINDINGS_SOON_MS = 400, FINDINGS_HANG_MS = 5000, MOST_FINDINGS = 150;
const SEVERITIES = ['error', 'warning', 'note'];
const SEVERITY_MARK = { error: '\u2716', warning: '\u25b2', note: '\u25cf', silenced: '\u25cb' };
const severityCount = (name, n) => SEVERITY_MARK[name] + ' ' + number(n) + ' ' + t((n === 1 ? 'severity_' : 'severities_') + name);
const ANSWER_MARK = { yes: '\u2713', no: '\u2717', failed: '!' };

// What the tab remembers: filters, what is silenced (rule -> reason, kept in this tab), the form that is open.
const findingsOf = (bench) => {
  if (bench.finding) return bench.finding;
  let silenced = {};
  try { silenced = JSON.parse(stored('sessionStorage', 'silenced')) || {}; } catch (error) { /* another version's: none */ }
  silenced = Object.fromEntries(Object.entries(silenced).filter(([, reason]) => typeof reason === 'string'));
  return (bench.finding = { silenced, off: new Set(), topic: '', text: '', onlyDiffering: false, onlyRows: false, open: '', reason: '', refused: false, version: 0, node: el('div', 'ti-findings'), drawn: '', from: '' });
};
const foundOf = (slot) => slot.finding || (slot.finding = { asked: 0, key: null, of: null, answer: null, busy: false, started: 0, cancelled: false, waits: false });

// ---- asking ---------------------------------------------------------------------------------------------------------
const askFindingsSoon = (bench) => { clearTimeout(bench.findingTimer); bench.findingTimer = setTimeout(() => { if (bench.view === 'findings') askFindings(bench); }, FINDINGS_SOON_MS); };
const askFindings = (bench) => {
  clearTimeout(bench.findingTimer); bench.findingTimer = 0;
  if (bench.inFlight || bench.dirty || !bench.slots.every((slot) => slot.answered)) return;  // their answer calls again
  const { fields, panes } = bench.readShown(), { silenced } = findingsOf(bench);
  bench.slots.forEach((slot, q) => askPaneFindings(bench, slot, { at: bench.at, fields, panes: [panes[q]], ignore: silenced }));
  redrawFindings(bench);
};
const askPaneFindings = async (bench, slot, body) => {
  const found = foundOf(slot), now = performance.now(), key = JSON.stringify([body.fields, body.panes, body.ignore]);
  if (found.key === key) { found.waits = false; return; }
  if (found.busy && now - found.started < FINDINGS_HANG_MS) {  // one that hangs is overtaken
    if (!found.waits) { found.waits = true; setTimeout(() => { if (found.waits) askFindings(bench); }, FINDINGS_HANG_MS - (now - found.started) + 10); }
    return;
  }
  const mine = (found.asked += 1);
  Object.assign(found, { key, busy: true, started: now, cancelled: false, waits: false });
  tickFindings(bench);
  const text = await bench.server.findings({ session: bench.session, ...body });
  if (mine !== found.asked) return;
  const answer = typeof text === 'string' ? JSON.parse(text) : null;
  found.busy = false;
  if (answer) Object.assign(found, { answer, of: key }); else Object.assign(found, { key: null, cancelled: true });
  if (typeof text !== 'string') bench.lost(true);
  if (found.waits) { found.waits = false; askFindings(bench); }
  redrawFindings(bench);
};
const cancelFindings = (bench) => {
  for (const slot of bench.slots) {
    const found = foundOf(slot);
    if (!found.busy) continue;
    bench.server.cancel_findings({ session: bench.session, slot: slot.key });
    Object.assign(found, { asked: found.asked + 1, key: null, busy: false, cancelled: true, waits: false });
  }
  redrawFindings(bench);
};
// Say how long a slow check has been going on.
const tickFindings = (bench) => {
  if (bench.findingTick) return;
  bench.findingTick = setInterval(() => {
    if (!bench.slots.some((slot) => foundOf(slot).busy)) { clearInterval(bench.findingTick); bench.findingTick = 0; return; }
    bench.slots.forEach((slot, q) => { const line = findingsOf(bench).node.querySelector('[data-busy="' + q + '"]'); if (line) line.textContent = busyText(slot); });
  }, 1000);
};
const busyText = (slot) => { const seconds = Math.round((performance.now() - foundOf(slot).started) / 1000); return t('findings_busy') + (seconds ? ' \u00b7 ' + seconds + ' s' : ''); };

// ---- silencing ------------------------------------------------------------------------------------------------------
const silenceRule = (bench, rule, reason) => {
  const finding = findingsOf(bench);
  if (reason === null) delete finding.silenced[rule]; else finding.silenced[rule] = reason;
  keep('sessionStorage', 'silenced', JSON.stringify(finding.silenced));
  // Shown at once; the answer that follows carries it too.
  for (const slot of bench.slots) { const { answer } = foundOf(slot); for (const each of (answer && answer.lint ? answer.lint.findings : [])) if (each.rule === rule) each.silenced = reason; }
  Object.assign(finding, { open: '', reason: '', refused: false });
  bench.heads.forEach((head, q) => { if (bench.state.own.panes[q].n) head.showCounts(bench.state.own.panes[q]); });
  redrawFindings(bench);
  askFindings(bench);
};

// ---- jumping --------------------------------------------------------------------------------------------------------
// The places of a finding as [kind, words, act], the nearest first.
const placesOf = (bench, q, { where }) => {
  const pane = bench.state.own.panes[q], places = [], token = Number.isInteger(where.token) && where.token < pane.n ? where.token : null;
  if (where.path) places.push(['field', where.path, () => jumpToPath(bench, q, where.path, token)]);
  if (where.line) places.push(['line', t('template_line', { n: where.line }), () => jumpToLine(bench, q, where.line)]);
  if (token !== null) places.push(['token', t('finding_token', { n: number(token) }), () => bench.go(q, token, token + 1)]);
  else if (Number.isInteger(where.start) && pane.n && where.start <= pane.bytes.length) places.push(['token', t('finding_bytes', { n: number(where.start) }), () => jumpToByte(bench, q, where.start)]);
  return places;
};
const jumpToPath = (bench, q, path, token) => {
  if (token !== null && bench.state.own.panes[q].origin(token)) {
    const origin = bench.state.own.panes[q].origin(token);
    if (origin.path === path) { bench.jumpFrom(q, token, 'field'); return; }
  }
  for (let steps = splitPath(path) || []; steps.length; steps = steps.slice(0, -1)) {  // what is absent: where it would stand
    const field = { steps, from: null, to: null };
    if (!bench.editorOf(field)) continue;
    if (bench.state.safeOn) { bench.state.safeOn = false; bench.show(bench.state.own); }
    const back = { view: bench.view, pick: bench.pick, selected: bench.selected };
    bench.choose({ kind: 'fields', fields: [field] }, false);
    bench.jump('field', bench.view);
    bench.back = back;
    return;
  }
  bench.tell(t('finding_gone', { place: path }));
};
const jumpToLine = (bench, q, line) => {
  if (bench.state.safeOn) { bench.state.safeOn = false; bench.show(bench.state.own); }
  const back = { view: bench.view, pick: bench.pick, selected: bench.selected };
  TEMPLATE_VIEW.editing = false;
  bench.choose({ kind: 'line', q, line }, false);
  bench.jump('line', bench.view);
  bench.back = back;
};
const jumpToByte = (bench, q, byte) => {
  const pane = bench.state.own.panes[q], i = Math.max(0, Math.min(pane.n - 1, pane.tokenAt(Math.min(byte, pane.bytes.length - 1))));
  bench.go(q, i, i + 1);
};
const placeButton = (bench, q, key, [kind, words, act]) => {
  const shown = showButSpaces(words), node = button('ti-place', '', () => { findingsOf(bench).from = key; act(); });
  node.append(el('span', 'ti-placemark', { field: '\u270e', line: '\u2261', token: '\u25ad' }[kind]), shown);
  node.title = t('finding_to_' + kind, { place: shown });
  node.setAttribute('aria-label', node.title);
  return focusable(node, key);
};

// ---- drawing --------------------------------------------------------------------------------------------------------
const redrawFindings = (bench) => { findingsOf(bench).version++; if (bench.view === 'findings') bench.draw(true); };
const drawFindings = (state, host, bench) => {
  const finding = findingsOf(bench), { node } = finding;
  if (host.firstChild !== node || host.childNodes.length !== 1) host.replaceChildren(node);
  const drawn = [finding.version, language, ...bench.slots.map((slot, q) => slot.key + ' ' + paneTitle(bench, q))].join('\u0000');
  if (drawn === finding.drawn) return;
  finding.drawn = drawn;
  const top = host.scrollTop;
  keepFocus(node, () => node.replaceChildren(findingsBar(bench), ...silencedBox(bench), findingColumns(bench), capabilityCard(bench)));
  host.scrollTop = top;
  leadToWanted(bench);
};
// Back from a jump: to the button that it began at.
const backToPlace = (finding) => {
  const { from, node } = finding, begun = from && Array.from(node.querySelectorAll('[data-focus]')).find((one) => one.dataset.focus === from);
  finding.from = '';
  if (begun) begun.focus();
  return Boolean(begun);
};
const paneTitle = (bench, q) => { const { tokenizer, template } = bench.state.own.panes[q]; return tokenizer ? tokenizer.id + (template ? ' + ' + templateLabel(template) : '') : ''; };
const reportsOf = (bench) => bench.slots.map((slot) => { const { answer } = foundOf(slot); return answer && answer.lint ? answer.lint : null; });
const ruleOf = (bench, q, id) => { const { answer } = foundOf(bench.slots[q]); return (answer.rules || {})[id] || { topic: '', title: '', why: '' }; };

const findingsBar = (bench) => {
  const finding = findingsOf(bench), bar = el('div', 'ti-findbar'), reports = reportsOf(bench), topics = new Set(), group = el('span', 'ti-sevs');
  group.setAttribute('role', 'group'); group.setAttribute('aria-label', t('severity'));
  for (const name of [...SEVERITIES, 'silenced']) {
    const node = focusable(button('ti-btn ti-sev-' + name, SEVERITY_MARK[name] + ' ' + t('severities_' + name), () => { if (finding.off.has(name)) finding.off.delete(name); else finding.off.add(name); redrawFindings(bench); }), 'sev ' + name);
    node.setAttribute('aria-pressed', !finding.off.has(name));
    group.append(node);
  }
  reports.forEach((report, q) => { for (const { rule } of report ? report.findings : []) topics.add(ruleOf(bench, q, rule).topic); });
  topics.delete('');
  const select = focusable(el('select', 'ti-findtopic'), 'topic');
  for (const topic of ['', ...[...topics].sort()]) { const option = el('option', '', topic ? t('rules_of_' + topic) : t('findings_all_topics')); option.value = topic; select.append(option); }
  if (finding.topic && !topics.has(finding.topic)) finding.topic = '';
  select.value = finding.topic; select.setAttribute('aria-label', t('findings_topic'));
  select.addEventListener('change', () => { finding.topic = select.value; redrawFindings(bench); });
  const input = focusable(textLine('findings_search', finding.text, 'findings_search'), 'search'), search = () => { finding.text = input.value; redrawFindings(bench); };
  input.className = 'ti-findsearch'; input.setAttribute('aria-label', t('findings_search')); delete input.dataset.in;
  input.addEventListener('input', (event) => { if (!event.isComposing) search(); }); input.addEventListener('compositionend', search);
  bar.append(group, select, input);
  if (reports.length > 1) bar.append(findingCheck(bench, 'findings_differing', 'onlyDiffering'));
  if (bench.slots.some((slot) => foundOf(slot).busy)) bar.append(focusable(button('ti-btn', t('cancel'), () => cancelFindings(bench)), 'cancel'));
  else if (bench.slots.some((slot) => foundOf(slot).cancelled)) bar.append(focusable(button('ti-btn', t('findings_again'), () => askFindings(bench)), 'again'));
  return bar;
};
const findingCheck = (bench, key, name) => {
  const label = bench.check(key, findingsOf(bench)[name], (on) => { findingsOf(bench)[name] = on; redrawFindings(bench); });
  focusable(label.firstChild, key);
  return label;
};
// What is silenced here stays in sight even where it would find nothing now.
const silencedBox = (bench) => {
  const finding = findingsOf(bench), rules = Object.keys(finding.silenced);
  if (!rules.length) return [];
  const box = el('p', 'ti-silencedrules'); box.append(el('b', '', t('silenced_rules')));
  for (const rule of rules) { const one = el('span', 'ti-silencedrule'); one.append(el('code', '', showButSpaces(rule)), ' ', el('span', 'ti-dim', showButSpaces(finding.silenced[rule])), ' ', undoButton(bench, rule, 'listed')); box.append(one); }
  return [box];
};
const undoButton = (bench, rule, place) => { const node = focusable(button('ti-link', t('silence_undo'), () => silenceRule(bench, rule, null)), 'undo ' + place + ' ' + rule); node.setAttribute('aria-label', t('silence_undo') + ': ' + rule); return node; };

const findingColumns = (bench) => {
  const columns = el('div', 'ti-columns'), reports = reportsOf(bench), has = reports.map((report) => new Set(report ? report.findings.map(sameFinding) : []));
  bench.slots.forEach((slot, q) => {
    const column = el('section'), { answer, busy, cancelled, key, of } = foundOf(slot), title = paneTitle(bench, q);
    column.setAttribute('aria-label', letter(q) + ' ' + t('view_findings'));
    column.append(el('h2', 'ti-h2', letter(q) + (title ? ' \u00b7 ' + showButSpaces(title) : '')));
    if (busy) { const line = statusLine(busyText(slot)); line.dataset.busy = q; column.append(line); }
    if (cancelled) column.append(el('p', 'ti-dim', t('findings_cancelled')));
    if (!answer && !busy && !cancelled) column.append(statusLine(t('findings_wait')));
    if (answer && of !== key) column.append(el('p', 'ti-dim', t('findings_old')));
    if (answer && answer.error) column.append(alertLine(answer.error));
    if (answer && answer.lint) column.append(...paneFindings(bench, q, answer.lint, has));
    columns.append(column);
  });
  return columns;
};
const sameFinding = ({ rule, message }) => rule + '\u0000' + message;
const paneFindings = (bench, q, report, has) => {
  const finding = findingsOf(bench), counts = el('p', 'ti-sevcounts'), all = has.every((set, p) => foundOf(bench.slots[p]).answer), words = finding.text.trim().toLowerCase();
  const lone = (each) => all && has.length > 1 && !has.every((set) => set.has(sameFinding(each))), level = (each) => (each.silenced === null ? each.severity : 'silenced');
  const rank = (each) => [...SEVERITIES, 'silenced'].indexOf(level(each));
  for (const name of [...SEVERITIES, 'silenced']) {
    const n = report.findings.filter((each) => level(each) === name).length;
    if (n || name !== 'silenced') counts.append(el('span', n ? 'ti-sevn ti-sev-' + name : 'ti-sevn ti-dim', severityCount(name, n)));
  }
  const keyed = report.findings.map((each, k) => [each, q + ' ' + k]).filter(([each]) => !finding.off.has(level(each)) && (!finding.topic || ruleOf(bench, q, each.rule).topic === finding.topic) && (!finding.onlyDiffering || lone(each)) && (!words || [each.rule, each.message, each.remedy].some((text) => text.toLowerCase().includes(words))));
  keyed.sort(([a], [b]) => rank(a) - rank(b));
  const list = el('ol', 'ti-finds'), add = (from, to) => { for (const [each, key] of keyed.slice(from, to)) list.append(findingItem(bench, q, each, key, level(each), lone(each))); };
  add(0, MOST_FINDINGS);
  const more = keyed.length > MOST_FINDINGS ? moreButton(keyed.length - MOST_FINDINGS, () => { more.remove(); add(MOST_FINDINGS); }) : null;
  return [counts, keyed.length ? list : el('p', 'ti-dim', t(report.findings.length ? 'findings_none_shown' : 'findings_none')), ...(more ? [more] : []), ...probesLine(report)];
};
const findingItem = (bench, q, each, key, level, lone) => {
  const item = el('li', 'ti-find ti-find-' + level), head = el('p', 'ti-findhead'), rule = ruleOf(bench, q, each.rule), acts = el('div', 'ti-findacts'), places = placesOf(bench, q, each);
  head.append(el('b', 'ti-sev-' + level, SEVERITY_MARK[level] + ' ' + t('severity_' + level)), ' ', el('code', '', each.rule));
  if (rule.topic) head.append(' ', el('span', 'ti-dim', t('rules_of_' + rule.topic)));
  if (lone) {
    const others = panesWith(bench, ({ rule }) => rule === each.rule), same = panesWith(bench, (other) => sameFinding(other) === sameFinding(each)), otherwise = others.filter((p) => !same.includes(p));
    head.append(' ', el('span', 'ti-lone', '\u2260 ' + t(otherwise.length ? 'finding_otherwise' : 'finding_only', { pane: (otherwise.length ? otherwise : same).map(letter).join(', ') })));
  }
  head.title = rule.title; item.dataset.rule = each.rule; item.dataset.of = q;
  item.append(head, el('p', 'ti-findsaid', showButSpaces(each.message)));
  if (each.silenced !== null) item.append(el('p', 'ti-findfix', t('silenced_for', { reason: showButSpaces(each.silenced) })));
  else {
    if (rule.why) { const why = el('p', 'ti-findwhy'); why.append(el('span', 'ti-findkey', t('finding_why') + ': '), showButSpaces(rule.why)); item.append(why); }
    if (each.remedy) item.append(el('p', 'ti-findfix', '\u2192 ' + showButSpaces(each.remedy)));
  }
  acts.append(...places.map((place, k) => placeButton(bench, q, key + ' place ' + k, place)));
  if (findingsOf(bench).open === key) item.append(acts, silenceForm(bench, each.rule, key));
  else {
    if (each.silenced === null && rule.topic) acts.append(silenceButton(bench, each.rule, key));
    else if (each.silenced !== null) acts.append(each.rule in findingsOf(bench).silenced ? undoButton(bench, each.rule, key) : el('span', 'ti-dim', t('silenced_in_request')));
    item.append(acts);
  }
  // A click anywhere on it goes to the nearest place; by keyboard its buttons do.
  if (places.length) {
    item.classList.add('ti-goes');
    item.addEventListener('click', (event) => { if (!event.target.closest('button, input, label') && !String(getSelection())) { findingsOf(bench).from = key + ' place 0'; places[0][2](); } });
  }
  return item;
};
const panesWith = (bench, of) => reportsOf(bench).map((report, q) => (report && report.findings.some(of) ? q : -1)).filter((q) => q >= 0);
const silenceButton = (bench, rule, key) => {
  const node = focusable(button('ti-link ti-silence', t('silence'), () => { Object.assign(findingsOf(bench), { open: key, reason: '', refused: false }); redrawFindings(bench); findingsOf(bench).node.querySelector('.ti-silenceform input').focus(); }), key + ' silence');
  node.setAttribute('aria-label', t('silence') + ': ' + rule);
  return node;
};
const silenceForm = (bench, rule, key) => {
  const finding = findingsOf(bench), form = el('form', 'ti-silenceform'), input = focusable(textLine('', finding.reason, 'silence_reason'), key + ' reason'), id = FLOW.uid + '-silence', err = el('p', 'ti-err', t('silence_wanted'));
  delete input.dataset.in;
  input.setAttribute('aria-label', t('silence_reason') + ': ' + rule); input.setAttribute('aria-describedby', id); input.setAttribute('aria-invalid', finding.refused);
  err.id = id; err.hidden = !finding.refused; err.setAttribute('role', 'alert');
  const leave = () => { finding.open = ''; redrawFindings(bench); const node = finding.node.querySelector('[data-focus="' + key + ' silence"]'); if (node) node.focus(); };
  input.addEventListener('input', () => { finding.reason = input.value; });
  form.addEventListener('keydown', (event) => { if (event.key === 'Escape' && !event.isComposing) { event.preventDefault(); event.stopPropagation(); leave(); } });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    if (input.value.trim()) { silenceRule(bench, rule, input.value.trim()); bench.tell(t('silenced_for', { reason: input.value.trim() })); bench.$('.ti-panel').focus(); } else { finding.refused = true; redrawFindings(bench); }
  });
  const go = el('button', 'ti-btn', t('silence_do')); go.type = 'submit';
  form.append(input, focusable(go, key + ' go'), focusable(button('ti-btn', t('silence_leave'), leave), key + ' leave'), err);
  return form;
};
const probesLine = ({ probes }) => {
  if (!probes.length) return [];
  const of = (name) => probes.filter(({ answer }) => answer === name), line = t('probes', { yes: of('yes').length, no: of('no').length, failed: of('failed').length }), apart = [...of('failed'), ...of('no')];
  if (!apart.length) return [el('p', 'ti-dim ti-probes', line)];
  const box = el('details', 'ti-probes ti-dim'), list = el('ul');
  for (const { name, answer, why } of apart) list.append(el('li', '', ANSWER_MARK[answer] + ' ' + t('answer_' + answer) + ' \u00b7 ' + showButSpaces(name) + (why ? ': ' + showButSpaces(why) : '')));
  box.append(el('summary', '', line), list);
  return [box];
};

// ---- the capability card --------------------------------------------------------------------------------------------
const capabilityCard = (bench) => {
  const finding = findingsOf(bench), box = el('section', 'ti-box ti-capabilities'), head = el('h2', 'ti-boxhead ti-h2'), reports = reportsOf(bench), cards = reports.map((report) => (report ? report.capabilities : null)), first = cards.find(Boolean);
  box.setAttribute('aria-label', t('card_title'));
  head.append(t('card_title'));
  box.append(head);
  if (!first) { if (reports.some(Boolean)) box.append(el('p', 'ti-dim', t('card_none'))); else box.hidden = true; return box; }
  const bar = el('p', 'ti-cardbar'); bar.append(el('span', 'ti-dim', t('card_about')));
  if (cards.length > 1) bar.append(findingCheck(bench, 'card_differing', 'onlyRows'));
  const node = table('', [t('card_row'), ...cards.map((_, q) => letter(q))], 'ti-can');
  node.setAttribute('aria-label', t('card_title'));
  node.style.setProperty('--cards', cards.length);
  let shown = 0;
  first.forEach(({ name }, k) => {
    const rows = cards.map((card) => (card ? card[k] : null)), there = rows.filter(Boolean), other = (of) => there.some((row) => of(row) !== of(there[0]));
    const differs = other((row) => row.answer + '\u0000' + row.value) ? '\u2260' : other((row) => row.why) ? '\u2248' : '';
    if (finding.onlyRows && differs !== '\u2260') return;
    shown++;
    const title = el('span', 'ti-canname', t('can_' + name));
    if (differs) { const mark = el('span', 'ti-canmark', differs); mark.title = t(differs === '\u2260' ? 'card_differs' : 'card_evidence_differs'); mark.setAttribute('role', 'img'); mark.setAttribute('aria-label', mark.title); title.append(' ', mark); }
    const line = rowOf([title, ...rows.map((row, q) => capabilityCell(bench, q, row))], differs === '\u2260' ? 'ti-differing' : '');
    rows.forEach((_, q) => { line.children[q + 1].dataset.pane = letter(q); });
    node.append(line);
  });
  box.append(bar, shown ? wide(node) : el('p', 'ti-dim', t('card_same')));
  return box;
};
const capabilityCell = (bench, q, row) => {
  const cell = el('div', 'ti-cancell');
  if (!row) { cell.append(el('span', 'ti-dim', '\u2013')); return cell; }
  if (row.answer) cell.append(el('b', 'ti-can-' + row.answer, ANSWER_MARK[row.answer] + ' ' + t('answer_' + row.answer)));
  if (row.value !== null) cell.append(row.answer ? ' ' : '', el('b', '', showButSpaces(row.value)));
  if (row.why) cell.append(el('span', 'ti-canwhy', showButSpaces(row.why)));
  if (row.line) cell.append(placeButton(bench, q, 'can ' + q + ' ' + row.name, ['line', t('template_line', { n: row.line }), () => jumpToLine(bench, q, row.line)]));
  return cell;
};

// ---- what can be taken away -----------------------------------------------------------------------------------------
const lintOf = (bench, q) => { const { answer } = foundOf(bench.slots[q]); return answer && answer.lint ? answer : null; };
const spelledPlace = ({ path, line, token, start, end }) => [path, line ? 'template line ' + line : '', token !== undefined ? 'token ' + token : '', start !== undefined && end !== undefined ? 'bytes ' + start + '-' + end : ''].filter(Boolean).join(', ');
const findingsText = ({ lint }) => lint.findings.map((each) => {
  const place = spelledPlace(each.where);
  return (each.silenced === null ? each.severity : 'silenced').padEnd(9) + each.rule + (place ? '  ' + place : '') + '\n         ' + each.message + '\n         ' + (each.silenced === null ? '-> ' + each.remedy : 'silenced: ' + each.silenced) + '\n';
}).join('') + [...SEVERITIES.map((name) => lint.counts[name] + ' ' + name + (lint.counts[name] === 1 ? '' : 's')), ...(lint.counts.silenced ? [lint.counts.silenced + ' silenced'] : [])].join(', ') + '\n';
const findingsExport = (make) => (bench, q) => { const found = lintOf(bench, q); return found ? make(found) : null; };

// ---- the heads ------------------------------------------------------------------------------------------------------
// How many findings of the cheap rules a pane has: a button that leads to the tab; null for none.
const findingCount = (bench, pane) => {
  const { silenced } = findingsOf(bench), heard = (pane.found || []).filter(([rule]) => !(rule in silenced)), n = heard.reduce((sum, [, , count]) => sum + count, 0);
  if (!n) return null;
  const of = (name) => heard.filter(([, severity]) => severity === name).reduce((sum, [, , count]) => sum + count, 0), worst = SEVERITIES.find(of);
  const node = button('ti-link ti-findcount ti-sev-' + worst, SEVERITY_MARK[worst] + ' ' + (n === 1 ? t('count_finding') : t('count_findings', { n: number(n) })), () => { bench.open('findings'); bench.$('.ti-panel').focus(); });
  node.title = SEVERITIES.filter(of).map((name) => severityCount(name, of(name))).join(', ') + ' \u00b7 ' + t('show_findings');
  return node;
};

// What the request holds and the prompt does not, by the rule that says so; a badge in the head leads to its findings.
const LEFT_OUT = { 'tools-unread': 'tools', 'message-dropped': 'messages', 'tool-result-dropped': 'results', 'tool-calls-dropped': 'calls', 'documents-unread': 'documents', 'reasoning-dropped': 'reasoning', 'content-cut': 'content' };
const leftOutBadge = (bench, pane, q) => {
  const finding = findingsOf(bench), lost = (pane.found || []).filter(([rule]) => rule in LEFT_OUT && !(rule in finding.silenced));
  if (!lost.length) return null;
  const parts = Object.entries(LEFT_OUT).map(([rule, key]) => [key, lost.filter(([found]) => found === rule).reduce((sum, [, , n]) => sum + n, 0)]).filter(([, n]) => n).map(([key, n]) => t('left_' + key, { n: number(n) }));
  const node = button('ti-hot ti-forgedcount ti-leftout', '\u2702 ' + t('left_out', { what: parts.join(t('list_comma')) }), () => {
    Object.assign(finding, { topic: '', text: '', onlyDiffering: false, wanted: { q, rules: Object.keys(LEFT_OUT) } });
    finding.off.clear();
    bench.open('findings');
    redrawFindings(bench);
  });
  node.title = t('left_out_title');
  return node;
};
// To the first finding that was asked for, once its pane has been checked.
const leadToWanted = (bench) => {
  const finding = findingsOf(bench), { wanted } = finding;
  if (!wanted) return;
  const item = Array.from(finding.node.querySelectorAll('.ti-find')).find((node) => +node.dataset.of === wanted.q && wanted.rules.includes(node.dataset.rule));
  if (!item) { if (!foundOf(bench.slots[wanted.q]).busy && foundOf(bench.slots[wanted.q]).answer) finding.wanted = null; return; }
  finding.wanted = null;
  item.scrollIntoView({ block: 'center' });
  (item.querySelector('button') || bench.$('.ti-panel')).focus({ preventScroll: true });
};

VIEW_MODELS.findings = {
  panel: drawFindings, ofFailed: true, arrived: askFindingsSoon,
  returned: (bench) => backToPlace(findingsOf(bench)),
  opened: (bench) => {
    askFindings(bench);
    if (bench.back) findingsOf(bench).from = '';  // the tab was opened by hand, not by going back
  },
  exports: [
    ['findings_text', 'findings.txt', 'text/plain', findingsExport(findingsText)],
    ['lint', 'lint.json', 'application/json', findingsExport(({ lint }) => JSON.stringify(lint, null, 1))],
    ['sarif', 'findings.sarif', 'application/sarif+json', findingsExport(({ sarif }) => JSON.stringify(sarif, null, 1))],
  ],
};
