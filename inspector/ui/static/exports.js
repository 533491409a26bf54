// What can be taken from each view, beyond its own copy button: [name of its strings, file name, type, content of a pane].
// A content is text or bytes; null where there is none yet. A view may bring its own list as `exports`.

// A text that a spreadsheet would take for a formula gets an apostrophe before it, as in exports made by the server.
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const csvCell = (value) => { const given = String(value ?? ''), text = typeof value === 'string' && FORMULA.test(given) ? "'" + given : given; return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text; };
const csv = (heads, rows) => [heads, ...rows].map((row) => row.map(csvCell).join(',')).join('\r\n') + '\r\n';
// A Python literal of bytes: printable ASCII as it is, all else as escapes.
const pythonBytes = (bytes) => 'b"' + Array.from(bytes, (b) => (b === 0x22 || b === 0x5c ? '\\' + String.fromCharCode(b) : b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : b === 10 ? '\\n' : '\\x' + b.toString(16).padStart(2, '0'))).join('') + '"';
const textOfPane = (pane) => pane.text(0, pane.bytes.length);
const flagsOf = (pane, i) => Object.keys(FLAG).filter((name) => pane.has(i, name));
const tokenRow = (pane, i) => { const origin = pane.origin(i); return [i, pane.ids[i], pane.piece(i), hex(pane.slice(i)), pane.start[i], pane.end[i], flagsOf(pane, i).join(' '), origin ? origin.kind : '', origin ? origin.path : '', origin && origin.line > 0 ? origin.line : '']; };
const TOKEN_COLUMNS = ['index', 'id', 'piece', 'bytes', 'start', 'end', 'flags', 'kind', 'path', 'line'];
const everyToken = (pane, row) => Array.from({ length: pane.n }, (_, i) => row(pane, i));

const shownPane = (content) => ({ state }, q) => (state.panes[q].n ? content(state.panes[q]) : null);
const ownPane = (content) => ({ state }, q) => (state.own.panes[q].n ? content(state.own.panes[q]) : null);
// What the server makes: a file of one pane, or of the first pane and this one. An error is said where the button is.
const fromServer = (form, both) => async (bench, q) => {
  if (!bench.state.own.panes[q].n && form !== 'html') return null;
  const request = bench.readShown(), panes = both ? [request.panes[0], request.panes[q]] : [request.panes[q]];
  const text = await bench.server.export_panes({ session: bench.session, at: bench.at, fields: request.fields, panes, form });
  if (typeof text !== 'string') { bench.lost(true); throw new Error(t('lost')); }
  const answer = JSON.parse(text);
  if (answer.error) throw new Error(answer.error);
  return rawBytes(answer.data);
};
const SERVER_MADE = ['parquet', 'report', 'report_both', 'reproduce', 'pin'];
const EXPORTS = {
  tokens: [
    ['ids', 'input-ids.json', 'application/json', shownPane((pane) => JSON.stringify(Array.from(pane.ids)).replaceAll(',', ', '))],
    ['python', 'tokens.py', 'text/x-python', shownPane((pane) => 'text = ' + JSON.stringify(textOfPane(pane)) + '\ninput_ids = [' + Array.from(pane.ids).join(', ') + ']\n')],
    ['csv', 'tokens.csv', 'text/csv', shownPane((pane) => csv(TOKEN_COLUMNS, everyToken(pane, tokenRow)))],
    ['jsonl', 'tokens.jsonl', 'application/jsonl', shownPane((pane) => everyToken(pane, (each, i) => JSON.stringify(Object.fromEntries(tokenRow(each, i).map((value, k) => [TOKEN_COLUMNS[k], TOKEN_COLUMNS[k] === 'flags' ? flagsOf(each, i) : value === '' ? null : value])))).join('\n') + '\n')],
    ['parquet', 'tokens.parquet', 'application/vnd.apache.parquet', fromServer('parquet')],
    ['report', 'report.html', 'text/html', fromServer('html')],
    ['report_both', 'comparison.html', 'text/html', fromServer('html', true)],
    ['reproduce', 'reproduce.zip', 'application/zip', fromServer('python')],
    ['pin', 'pin.zip', 'application/zip', fromServer('pytest')],
  ],
  bytes: [
    ['raw', 'rendered.bin', 'application/octet-stream', shownPane((pane) => pane.bytes)],
    ['hex', 'rendered.hex.txt', 'text/plain', shownPane((pane) => hex(pane.bytes))],
    ['pybytes', 'rendered-bytes.py', 'text/x-python', shownPane((pane) => pythonBytes(pane.bytes))],
  ],
  rendered: [
    ['text', 'rendered.txt', 'text/plain', shownPane((pane) => pane.bytes)],
    ['string', 'rendered.json', 'application/json', shownPane((pane) => JSON.stringify(textOfPane(pane)))],
  ],
  control: [
    ['csv', 'control-tokens.csv', 'text/csv', ({ state }, q) => { const data = state.control && state.control.panes[q]; return data && data.tokens ? csv(['index', 'id', 'piece', 'special', 'verdict', 'path', 'line'], data.tokens) : null; }],
    ['json', 'control.json', 'application/json', ({ state }, q) => (state.control && state.control.panes[q] && !state.control.panes[q].error ? JSON.stringify(state.control.panes[q], null, 1) : null)],
  ],
  budget: [
    ['csv', 'tokens-by-part.csv', 'text/csv', ownPane((pane) => csv(['part', 'tokens'], countParts(pane).map(({ key, n }) => [key, n])))],
    ['json', 'budget.json', 'application/json', ownPane((pane) => JSON.stringify({ parts: Object.fromEntries(countParts(pane).map(({ key, n }) => [key, n])), budget: pane.budget }, null, 1))],
  ],
  logits: [
    ['csv', 'next-token-logits.csv', 'text/csv', ({ state }, q) => { const rows = state.logits && state.logits.rows && state.logits.rows.filter((row) => row.cells[q]); return rows && rows.length ? csv(['rank', 'id', 'piece', 'logit', 'logprob', 'prob'], rows.map((row) => [row.cells[q].rank, row.id, row.piece, row.cells[q].logit, row.cells[q].logprob, row.cells[q].prob]).sort((x, y) => x[0] - y[0])) : null; }],
    ['json', 'verdict.json', 'application/json', ({ state }) => (state.logits && state.logits.rows && state.logits.rows.length ? JSON.stringify(state.logits, null, 1) : null)],
  ],
  template: [['source', 'chat_template.jinja', 'text/plain', ownPane((pane) => (pane.template ? pane.template.text : null))]],
  plots: [['csv', 'tokens-per-message.csv', 'text/csv', ownPane((pane) => csv(['turn', 'tokens', ...ORIGINS], stackOfTurns(pane).map((bar) => [turnKey(bar.turn), bar.n, ...ORIGINS.map((kind) => bar.by[kind] || 0)])))]],
};
const fileOf = (name, q) => name.replace(/^([^.]+)/, '$1-' + letter(q).toLowerCase());

// The menu of a view's exports: a row for each, a copy and a download button for each pane.
const exportMenu = (bench) => {
  const list = VIEW_MODELS[bench.view].exports || EXPORTS[bench.view];
  if (!list) return null;
  const box = el('details', 'ti-menu'), sheet = el('div', 'ti-menusheet'), told = el('p', 'ti-menutold');
  told.setAttribute('role', 'status');
  const say = (text, bad) => { told.textContent = text; told.classList.toggle('ti-bad', Boolean(bad)); };
  const run = async (make, q, done) => {
    const content = make(bench, q);
    if (content instanceof Promise) say(t('export_making'));
    try {
      const made = await content;
      say('');
      if (made === null) bench.tellCopied('export_nothing'); else done(made);
    } catch (error) { say(error.message, true); }
  };
  const act = (key, q, make, done) => button('ti-btn', letter(q) + ' ' + t(key), () => run(make, q, done));
  for (const [name, file, type, make] of list) {
    const row = el('div', 'ti-menurow'), acts = el('span', 'ti-menuacts');
    for (const q of bench.state.panes.keys()) if (name !== 'report_both' || q) acts.append(...(name === 'raw' || SERVER_MADE.includes(name) ? [] : [act('export_copy', q, make, (content) => bench.copy(typeof content === 'string' ? content : fromUtf8.decode(content)))]), act('export_download', q, make, (content) => saveFile(fileOf(file, q), content, type)));
    for (const node of acts.children) node.setAttribute('aria-label', node.textContent + ': ' + t('export_' + name));
    row.append(el('span', '', t('export_' + name)), acts);
    sheet.append(row);
  }
  sheet.append(told);
  box.append(el('summary', 'ti-btn', t('export_menu')), sheet);
  box.addEventListener('toggle', () => {
    sheet.style.left = '';
    const over = box.open ? sheet.getBoundingClientRect().right - (document.documentElement.clientWidth - 8) : 0;
    if (over > 0) sheet.style.left = sheet.offsetLeft - over + 'px';
  });
  box.addEventListener('keydown', (event) => { if (event.key === 'Escape' && box.open) { event.preventDefault(); event.stopPropagation(); box.open = false; box.firstChild.focus(); } });
  box.addEventListener('focusout', (event) => { if (event.relatedTarget && !box.contains(event.relatedTarget)) box.open = false; });
  return box;
};
document.addEventListener('pointerdown', (event) => { for (const menu of document.querySelectorAll('.ti-menu[open]')) if (!menu.contains(event.target)) menu.open = false; });
