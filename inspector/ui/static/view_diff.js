// Every region in which two panes differ: why, both texts with what surrounds them, who wrote them, how many tokens.
// The server lists them (diff.py); it is asked when the tab is open and both panes are at rest. A region can be gone to
// in the token view; the list keeps its place meanwhile.

const DIFF_SOON_MS = 120, DIFF_LATE_MS = 450, DIFF_SAY_MS = 150;

const diffOf = (bench) => (bench.diff = bench.diff || { pair: [0, 1], answer: null, of: null, busy: false, timer: 0, only: null, at: -1 });
// The pair that is compared, of the panes that there are.
const diffPair = (bench) => {
  const d = diffOf(bench), count = bench.state.own.panes.length;
  if (d.pair.some((q) => q >= count) || d.pair[0] === d.pair[1]) d.pair = [0, 1];
  return d.pair;
};
// What an answer is of: the pair and the panes' answers.
const diffKey = (bench) => diffPair(bench).map((q) => bench.slots[q].key + ' ' + bench.slots[q].base).join(' ');
const diffRests = (bench) => { const unsettled = bench.unsettled(); return diffPair(bench).every((q) => !unsettled[q]); };
const diffFailed = (bench) => diffPair(bench).filter((q) => bench.slots[q].answered && bench.slots[q].failed && !bench.slots[q].inFlight && !bench.slots[q].dirty);

// ---- asking ---------------------------------------------------------------------------------------------------------
const diffSoon = (bench) => {
  const d = diffOf(bench);
  if (d.timer || !diffRests(bench) || d.of === diffKey(bench) || (d.busy && d.asked === diffKey(bench))) return;
  d.timer = setTimeout(() => { d.timer = 0; diffAsk(bench); }, !d.answer ? 0 : bench.slots.some((slot) => slot.lastMs > CALM_MS) ? DIFF_LATE_MS : DIFF_SOON_MS);
};
const diffAsk = async (bench) => {
  const d = diffOf(bench), [p, q] = diffPair(bench);
  if (bench.view !== 'diff' || d.busy || !diffRests(bench)) return;
  const key = (d.asked = diffKey(bench)), { fields, panes } = bench.readShown();
  d.busy = true; d.late = false;
  const waiting = setTimeout(() => { d.late = true; diffRedraw(bench); }, DIFF_SAY_MS);
  const text = await bench.server.hunks({ session: bench.session, at: bench.at, fields, panes: [panes[p], panes[q]] });
  clearTimeout(waiting);
  d.busy = d.late = false;
  if (typeof text !== 'string') { bench.lost(true); diffRedraw(bench); return; }
  const answer = JSON.parse(text);
  if (answer && key === diffKey(bench)) {
    if (d.only && !(answer.hunks || []).some(({ code }) => code === d.only)) d.only = null;
    Object.assign(d, { answer, of: key, shownPair: [p, q], at: Math.min(d.at, (answer.hunks || []).length - 1) });
  } else if (answer === null) d.asked = null;
  diffRedraw(bench);
};
const diffRedraw = (bench) => { if (bench.view === 'diff') bench.draw(true); };

// ---- drawing --------------------------------------------------------------------------------------------------------
// What is drawn is kept while nothing of it changes: a key in an editor redraws the page.
const drawDiff = (state, host, bench) => {
  const d = diffOf(bench), old = !diffRests(bench) || d.of !== diffKey(bench), failed = diffFailed(bench), key = [language, d.only, diffPair(bench), bench.root.classList.contains('narrow')].join();
  diffSoon(bench);
  if (!d.node || d.drawn !== d.answer || d.drawnAs !== key || host.firstChild !== d.node) {
    const top = host.contains(d.node) ? host.scrollTop : d.top || 0, kept = d.drawn === d.answer && d.drawnAs === key && d.node;
    const build = () => { d.node = kept || diffNode(bench, d); d.drawn = d.answer; d.drawnAs = key; host.replaceChildren(d.node); };
    keepFocus(host, build);
    host.scrollTop = top;
  }
  d.node.classList.toggle('ti-olddiff', Boolean(d.answer) && old);
  const line = d.node.firstChild, text = failed.length ? t('diff_pane_failed', { panes: failed.map(letter).join(', ') }) + (d.answer && !d.answer.error ? ' ' + t('diff_before') : '') : d.late || (!d.answer && old) ? t('diff_computing') : '';
  line.hidden = !text; line.className = failed.length ? 'ti-err ti-thin' : 'ti-working ti-thin';
  if (line.textContent !== text) line.textContent = text;
};
const diffNode = (bench, d) => {
  const node = el('div', 'ti-diffview'), line = el('p', ''), { answer } = d;
  line.setAttribute('role', 'status');
  node.append(line);
  if (!answer || (d.shownPair || []).join() !== d.pair.join()) return node;
  if (answer.error) { node.append(alertLine(answer.error)); return node; }
  if (answer.failed.some(Boolean)) { node.append(...answer.failed.flatMap((text, k) => (text ? [alertLine(letter(d.pair[k]) + ': ' + text)] : []))); return node; }
  node.append(diffVerdict(answer, d), diffDelta(answer, d, bench.root.classList.contains('narrow')));
  if (answer.hunks.length) node.append(...(answer.hunks.length > 1 ? [diffFilter(bench, answer, d)] : []), diffList(bench, answer, d));
  if (answer.total > answer.hunks.length) node.append(el('p', 'ti-note ti-diffmore', t('diff_left', { n: number(answer.total - answer.hunks.length), of: number(answer.total) })));
  return node;
};
const diffVerdict = ({ equal, total, same_tokenizer }, d) => {
  const names = { a: letter(d.pair[0]), b: letter(d.pair[1]), n: number(total) };
  const key = equal.bytes && equal.ids ? 'diff_equal' : equal.bytes && !total && !same_tokenizer ? 'diff_equal_pieces' : equal.bytes ? 'diff_same_text' : 'diff_regions';
  const line = el('p', 'ti-verdict ti-diffverdict', (key === 'diff_equal' ? '\u2713 ' : key === 'diff_same_text' ? '\u2248 ' : '') + t(total === 1 && (key === 'diff_regions' || key === 'diff_same_text') ? key + '_one' : key, names));
  if (!equal.ids && !same_tokenizer && key !== 'diff_equal_pieces') line.append(el('span', 'ti-dim', ' ' + t('diff_tokenizers')));
  return line;
};
// Both sides' numbers and what lies between them: bytes, tokens, tokens by origin, the budget's. A row a side where there is
// room, a column a side on a phone.
const diffDelta = (answer, d, narrow) => {
  const [a, b] = d.pair.map(letter), rows = diffNumbers(answer), frame = el('div', 'ti-deltaframe'), cell = (n) => (typeof n === 'number' ? number(n) : '\u2013');
  const between = ([x, y]) => (typeof x !== 'number' || typeof y !== 'number' ? '' : x === y ? '=' : signed(y - x)), lines = [['', ...rows.map(([name]) => name)], [a, ...rows.map(([, [x]]) => cell(x))], [b, ...rows.map(([, [, y]]) => cell(y))], [b + ' \u2212 ' + a, ...rows.map(([, pair]) => between(pair))]];
  const shown = narrow ? lines[0].map((_, k) => lines.map((line) => line[k])) : lines, node = table('', shown[0], 'ti-deltas');
  shown.slice(1).forEach((cells, k) => node.append(rowOf(cells, narrow && between(rows[k][1]) === '=' ? 'ti-alike' : '')));
  if (!narrow) rows.forEach(([, pair], k) => { if (between(pair) === '=') for (const line of node.rows) line.cells[k + 1].className = 'ti-alike'; });
  node.setAttribute('aria-label', t('diff_delta'));
  node.classList.toggle('ti-standing', narrow);
  frame.append(node);
  return frame;
};
const diffNumbers = ({ bytes, delta }) => [
  [t('bytes'), bytes], [t('col_tokens'), [delta.tokens.a, delta.tokens.b]],
  ...Object.entries(delta.by_origin).filter(([, [x, y]]) => x || y).map(([kind, pair]) => [kind === 'generation_prompt' ? t('part_generation_prompt') : t('kind_' + kind), pair]),
  ...Object.entries(delta.budget || {}).map(([name, pair]) => [t(['kept', 'cut', 'dropped'].includes(name) ? name : 'budget_' + name), pair]),
];
const diffShown = (d) => (d.answer && d.answer.hunks ? d.answer.hunks.flatMap((hunk, k) => (!d.only || hunk.code === d.only ? [k] : [])) : []);
const diffFilter = (bench, answer, d) => {
  const box = el('div', 'ti-diffbar'), counts = new Map();
  box.setAttribute('role', 'group'); box.setAttribute('aria-label', t('diff_filter'));
  for (const { code } of answer.hunks) counts.set(code, (counts.get(code) || 0) + 1);
  const chip = (code, name, n) => { const node = focusable(button('ti-btn ti-why', name + ' ', () => { d.only = code; d.at = -1; diffRedraw(bench); }), 'why ' + code); node.append(el('b', '', number(n))); node.setAttribute('aria-pressed', String(d.only === code)); return node; };
  box.append(chip(null, t('diff_all'), answer.hunks.length), ...[...counts].sort((x, y) => y[1] - x[1]).map(([code, n]) => chip(code, t('why_' + code), n)));
  return box;
};
const diffList = (bench, answer, d) => {
  const list = el('ol', 'ti-hunks');
  list.append(...diffShown(d).map((k) => hunkItem(bench, answer.hunks[k], k, d)));
  return list;
};
// What is said beyond the reason's name and the sizes, which stand beside it.
const hunkDetail = (hunk, [p, q]) => {
  const found = /^(?:same text, other ids; )?[A-Z]?[A-Za-z -]*: ([^]*) \(A \d+ bytes in \d+ tokens?, B \d+ bytes in \d+ tokens?\)$/.exec(hunk.reason);
  return pairNamed(said(found ? found[1] : hunk.reason), p, q);
};
// The server calls the two sides A and B; what is quoted stays.
const pairNamed = (text, p, q) => (p === 0 && q === 1 ? text : text.split(/('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")/).map((part, k) => (k % 2 ? part : part.replace(/(?<![\w#.])[AB](?!\w)/g, (name) => letter(name === 'A' ? p : q)))).join(''));
const hunkItem = (bench, hunk, k, d) => {
  const item = el('li', 'ti-hunk' + (k === d.at ? ' ti-hunkat' : '')), head = el('div', 'ti-hunkhead'), go = focusable(button('ti-hunkgo', '', (event) => { event.stopPropagation(); hunkGo(bench, k); }), 'hunk ' + k), sides = el('div', 'ti-hunksides');
  item.dataset.hunk = k;
  go.append(el('span', 'ti-hunkno', String(k + 1)), el('b', '', t('why_' + hunk.code)));
  go.title = t('diff_go');
  head.append(go, ...(hunk.same_text ? [el('span', 'ti-sametext', '\u2248 ' + t('diff_same'))] : []), el('span', 'ti-hunkwhy', show(hunkDetail(hunk, d.pair)).replaceAll('\u00b7', ' ')));
  sides.append(...['a', 'b'].map((name, n) => hunkSide(hunk, name, d.pair[n], n, d)));
  item.append(head, sides);
  item.addEventListener('click', () => { if (getSelection().isCollapsed) hunkGo(bench, k); });
  return item;
};
const hunkSide = (hunk, name, q, n, d) => {
  const side = hunk[name], node = el('section', 'ti-hunkside'), about = el('p', 'ti-hunkabout'), [from, to] = side.bytes, [first, last] = side.tokens;
  node.setAttribute('aria-label', letter(q));
  about.append(el('b', '', letter(q)), el('span', '', t('diff_sizes', { bytes: number(to - from), tokens: number(last - first) })), el('span', 'ti-dim', last > first ? '#' + first + (last - first > 1 ? '\u2013' + (last - 1) : '') : first < d.answer.delta.tokens[name] ? t('diff_before_token', { n: first }) : t('diff_at_end')), el('span', '', hunkOrigins(side)));
  node.append(about);
  if (hunk.same_text || side.bytes[1] > side.bytes[0] || side.before || side.after) node.append(hunkText(hunk, side, n));
  if (hunk.same_text || (!side.text && side.ids.length)) node.append(hunkIds(side));
  return node;
};
const hunkOrigins = ({ origins, more_origins, wrote }) => {
  const sources = new Map();  // source -> template lines
  for (const { kind, path, line } of origins) {
    const name = path ? show(path).replaceAll('\u00b7', ' ') : kind === 'template' && line ? '' : t('kind_' + kind), lines = sources.get(name) || [];
    if (line) lines.push(line);
    sources.set(name, lines);
  }
  const names = [...sources].map(([name, lines]) => [...(name ? [name] : []), ...(lines.length > 1 ? [t('template_lines', { lines: lines.join(', ') })] : lines.map((n) => t('template_line', { n })))].join(' \u00b7 ')), text = names.join('; ') + (more_origins ? ' \u2026 +' + more_origins : '');
  return wrote ? text : text ? t('diff_nothing_after', { place: text }) : '';
};
const hunkText = (hunk, side, n) => {
  const line = el('p', 'ti-hunktext'), mark = (text) => el(hunk.same_text ? 'span' : n ? 'ins' : 'del', hunk.same_text ? 'ti-hunksame' : 'ti-hunkchg', show(text));
  line.append(el('span', 'ti-dim', show(side.before)));
  if (side.text) line.append(mark(side.text)); else if (!hunk.same_text) line.append(el('span', 'ti-hunkvoid', t('nothing')));
  if (side.left_out) line.append(el('span', 'ti-hunkcut', t('diff_bytes_more', { n: number(side.left_out) })));
  if (side.tail) line.append(mark(side.tail));
  line.append(el('span', 'ti-dim', show(side.after)));
  return line;
};
const hunkIds = (side) => {
  const line = el('div', 'ti-seq'), more = side.tokens[1] - side.tokens[0] - side.ids.length;
  line.append(...side.ids.map(([id, piece], k) => tokenChip(piece, id, 'k' + (k & 1))));
  if (!side.ids.length) line.append(el('span', 'ti-dim', t('diff_no_token')));
  if (more > 0) line.append(el('span', 'ti-dim', '+' + number(more)));
  return line;
};

// ---- going there and stepping ---------------------------------------------------------------------------------------
const hunkGo = (bench, k) => {
  const d = diffOf(bench), hunk = d.answer.hunks[k];
  if (d.of !== diffKey(bench) || !diffRests(bench)) return;
  hunkAt(bench, k);
  d.top = bench.$('.ti-panel').scrollTop;
  const name = hunk.a.tokens[1] > hunk.a.tokens[0] || hunk.b.tokens[1] === hunk.b.tokens[0] ? 'a' : 'b', q = d.pair[name === 'a' ? 0 : 1], last = bench.state.own.panes[q].n;
  const from = Math.max(0, Math.min(hunk[name].tokens[0], last - 1));
  bench.go(q, from, Math.max(from + 1, Math.min(hunk[name].tokens[1], last)));
};
const hunkAt = (bench, k) => {
  const d = diffOf(bench);
  d.at = k;
  for (const item of d.node.querySelectorAll('.ti-hunk')) item.classList.toggle('ti-hunkat', +item.dataset.hunk === k);
};
const hunkFocus = (bench, k) => {
  const item = diffOf(bench).node.querySelector('[data-hunk="' + k + '"]');
  if (!item) return false;
  hunkAt(bench, k);
  item.scrollIntoView({ block: 'nearest' });
  item.querySelector('.ti-hunkgo').focus({ preventScroll: true });
  return true;
};
const hunkStep = (bench, step) => {
  const d = diffOf(bench), shown = diffShown(d), at = shown.indexOf(d.at), to = at < 0 ? (step > 0 ? 0 : shown.length - 1) : at + step;
  if (to >= 0 && to < shown.length) hunkFocus(bench, shown[to]);
};
const diffKeys = (bench) => {
  if (bench.diffListens) return;
  bench.diffListens = true;
  bench.$('.ti-panel').addEventListener('keydown', (event) => {
    if (bench.view !== 'diff' || event.ctrlKey || event.metaKey || event.altKey || !['n', 'p'].includes(event.key)) return;
    event.preventDefault();
    hunkStep(bench, event.key === 'n' ? 1 : -1);
  });
};

// ---- the bar, and what can be taken away ----------------------------------------------------------------------------
const diffSwitches = (bench, host) => {
  const { panes } = bench.state.own;
  if (panes.length < 3) return;
  const d = diffOf(bench), pair = diffPair(bench), picker = (n) => {
    const node = el('select', 'ti-diffpane');
    node.setAttribute('aria-label', t(n ? 'diff_other' : 'diff_one'));
    panes.forEach((pane, q) => { const option = el('option', '', letter(q) + (pane.tokenizer ? ' \u00b7 ' + pane.tokenizer.id : '')); option.value = q; option.selected = q === pair[n]; node.append(option); });
    node.addEventListener('change', () => {
      const to = +node.value, next = [...d.pair];
      if (next[1 - n] === to) next[1 - n] = next[n];
      next[n] = to;
      Object.assign(d, { pair: next, only: null, at: -1, top: 0 });
      bench.drawTools(); diffRedraw(bench);
      bench.$('.ti-tools').querySelectorAll('.ti-diffpane')[n].focus();
    });
    return node;
  };
  host.append(el('span', '', t('diff_compare')), picker(0), picker(1));
};
const diffText = (bench) => {
  const d = diffOf(bench), { answer } = d;
  if (!answer || !answer.equal) return null;
  const lines = [diffVerdict(answer, d).textContent];
  for (const k of diffShown(d)) {
    const hunk = answer.hunks[k];
    lines.push('', (k + 1) + '. ' + t('why_' + hunk.code) + ': ' + hunkDetail(hunk, d.pair));
    ['a', 'b'].forEach((name, n) => {
      const { bytes, tokens, text, left_out, tail, ids } = hunk[name], shown = JSON.stringify(text) + (left_out ? ' \u2026 ' + JSON.stringify(tail) : '');
      lines.push('   ' + letter(d.pair[n]) + '  ' + t('bytes') + ' ' + bytes.join('\u2013') + ', ' + t('col_tokens') + ' ' + tokens.join('\u2013') + ', ' + hunkOrigins(hunk[name]) + ': ' + shown + (hunk.same_text || !text ? ' [' + ids.map(([id]) => id).join(', ') + ']' : ''));
    });
  }
  if (answer.total > answer.hunks.length) lines.push('', t('diff_left', { n: number(answer.total - answer.hunks.length), of: number(answer.total) }));
  return lines.join('\n') + '\n';
};
const diffJson = (bench) => {
  const d = diffOf(bench), { answer } = d;
  if (!answer || !answer.equal) return null;
  return JSON.stringify({ panes: d.pair.map(letter), ...answer, hunks: diffShown(d).map((k) => answer.hunks[k]) }, null, 1) + '\n';
};
const diffTools = (bench, host, put) => {
  const take = (make, act) => () => { const text = make(bench); if (text === null) bench.tellCopied('export_nothing'); else act(text); };
  put('previous_difference', () => hunkStep(bench, -1));
  put('next_difference', () => hunkStep(bench, 1));
  put('diff_copy_text', take(diffText, (text) => bench.copy(text)));
  put('diff_copy_json', take(diffJson, (text) => bench.copy(text)));
  put('diff_save_json', take(diffJson, (text) => saveFile('differences.json', text, 'application/json')));
};

// What the reasons say in detail, for `said`.
SENTENCES.push(
  [/^(\S+) is not the same in the two requests$/, 'said_request', ['path']],
  [/^(\S+) is ([^]*) in A and ([^]*) in B$/, 'said_is_in', ['path', 'a*', 'b*']],
  [/^A begins ([^]*), B ([^]*)$/, 'said_begins', ['a*', 'b*']],
  [/^with (one|\d+) (\S+)$/, 'said_with_bos', ['n*', 'piece']],
  [/^with (one|\d+)$/, 'said_with_some', ['n*']],
  [/^one$/, 'said_one', []],
  [/^without (\S+)$/, 'said_without_bos', ['piece']],
  [/^without$/, 'said_without', []],
  [/^([AB]) ends with it, ([AB]) does not$/, 'said_ends_with_it', ['side', 'other']],
  [/^A reads (\S+), B (\S+)$/, 'said_reads', ['a', 'b']],
  [/^the same time in different formats$/, 'said_formats', []],
  [/^one side writes a date of its own$/, 'said_own_date', []],
  [/^([AB])'s budget of (\d+) tokens for input by (\S+) leaves ([^]*) out$/, 'said_budget_leaves', ['side', 'n', 'policy', 'path']],
  [/^(\S+) was changed on one side only \(A (\S+), B (\S+)\)$/, 'said_one_side', ['path', 'a', 'b']],
  [/^([AB]) leaves out the reasoning of (\S+)$/, 'said_no_reasoning', ['side', 'path']],
  [/^([AB]) writes nothing of (\S+)$/, 'said_nothing_of', ['side', 'path']],
  [/^([AB]) keeps (b?'[^]*'|b?\"[^]*\") at the (begin|start|end) of (\S+), ([AB]) strips it \(([^()]*)\)$/, 'said_strips', ['side', 'text', 'place*', 'path', 'other', 'line*']],
  [/^(?:begin|start)$/, 'said_at_begin', []],
  [/^end$/, 'said_at_end', []],
  [/^(\S+) is written as ([^]*) in A and as ([^]*) in B$/, 'said_written_as', ['path', 'a', 'b']],
  [/^(\S+) has its keys as ([^]*) in A and as ([^]*) in B$/, 'said_keys_as', ['path', 'a', 'b']],
  [/^(\S+) is escaped otherwise$/, 'said_escaped', ['path']],
  [/^([AB]) writes (\S+) here, ([AB]) does not$/, 'said_not_here', ['side', 'path', 'other']],
  [/^no message gives a system prompt$/, 'said_no_system', []],
  [/^([AB]) never writes (\S+)$/, 'said_never', ['side', 'path']],
  [/^(\S+) is not written in the same way$/, 'said_other_way_of', ['path']],
  [/^([AB]) writes (\S+) at another place$/, 'said_elsewhere', ['side', 'path']],
  [/^A was rendered by (\S+), B by (\S+)$/, 'said_rendered_by', ['a', 'b']],
  [/^A adds ([^]*), B ([^]*): it stands for no byte of the text$/, 'said_adds', ['a*', 'b*']],
  [/^([^]*) is one control token in ([AB]) and ordinary text in ([AB])$/, 'said_one_control', ['piece', 'side', 'other']],
  [/^([^;]*); (A cuts [^]*)$/, 'said_and_cuts', ['what*', 'cuts*']],
  [/^A cuts ('[^]*'|\"[^]*\"), B cuts ('[^]*'|\"[^]*\")$/, 'said_cuts', ['a', 'b']],
  [/^the same tokenizer, cut at other places$/, 'said_cut_elsewhere', []],
  [/^the pieces before the model differ$/, 'said_pieces_differ', []],
  [/^the same text cut by other merges or another vocabulary$/, 'said_other_merges', []],
  [/^the same pieces have other ids: A ([^]*), B ([^]*)$/, 'said_other_ids', ['a', 'b']],
  [/^A makes ([^]*) of it, B ([^]*)$/, 'said_makes', ['a', 'b']],
  [/^([AB])'s tokenizer encodes the request itself: there is no text to compare$/, 'said_own_encoding', ['side']],
  [/^A writes ([^]*), B ('[^]*'|\"[^]*\")( \([^()]*\))?$/, 'said_writes_two', ['a*', 'b', 'place']],
);

VIEW_MODELS.diff = {
  panel: drawDiff, switches: diffSwitches, tools: diffTools, opened: diffKeys,
  // Back from the token view: to the region that was gone to.
  returned: (bench) => { const d = diffOf(bench); return d.at >= 0 && hunkFocus(bench, d.at); },
};
