// What belongs together: tokens, bytes, template lines, request fields and parts of the prompt. Pure functions over
// Pane and Rows; no DOM. A pick is what a person points at; a link is all that corresponds to it, in every pane.
//   pick: {kind: 'tokens', q, from, to} | {kind: 'bytes', q, from, to} | {kind: 'line', q, line} | {kind: 'part', q, key}
//         | {kind: 'fields', fields: [{steps, from, to}]}      from, to: UTF-8 bytes of the field's text; null: all of it
//   link: {q, panes: [{bytes: [[from, to]], tokens: [[i, j]] | null, lines: Set}], fields: [{steps, from, to, key}]}

const MOST_PIECES = 20000;

// ---- paths ----------------------------------------------------------------------------------------------------------
const PATH_STEP = /\.?([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/y;
// `messages[2].content` as ['messages', 2, 'content']; null for what is no path.
const splitPath = (path) => {
  const steps = [];
  let at = 0;
  while (at < path.length) {
    PATH_STEP.lastIndex = at;
    const match = PATH_STEP.exec(path);
    if (!match) return null;
    try { steps.push(match[1] !== undefined ? match[1] : match[2] !== undefined ? +match[2] : JSON.parse(match[3])); } catch (error) { return null; }
    at = PATH_STEP.lastIndex;
  }
  return steps;
};
const keyOf = (steps) => JSON.stringify(steps);
const startsWith = (steps, head) => steps.length >= head.length && head.every((step, k) => steps[k] === step);

// ---- positions in JSON text (scan.js finds them) ---------------------------------------------------------------------
// The roots of the page's editors; the messages editor may hold a whole request.
const editorRoot = (name, text) => ({ messages: /^\ufeff?\s*\{/.test(text) ? [] : ['messages'], tools: ['tools'], documents: ['documents'], arguments: ['chat_template_kwargs'] })[name];

// The character at a position of a string's source: [position after it, its UTF-8 bytes].
const charAt = (text, at) => {
  const [code, next] = unitAt(text, at);
  if (code >= 0xd800 && code < 0xdc00) {
    const [low, after] = unitAt(text, next);
    if (low >= 0xdc00 && low < 0xe000) return [after, 4];
  }
  return [next, code < 0 ? 0 : code < 0x80 ? 1 : code < 0x800 ? 2 : 3];
};
// Source positions of the characters that hold bytes [from, to) of a node's text.
const sourceOf = (text, node, from, to) => {
  if (node.kind === 'number') return [node.from + from, Math.min(node.to, node.from + to)];
  if (node.kind !== 'string') return [node.from, node.to];
  let first = -1, last = -1;
  for (let at = node.from + 1, byte = 0; at < node.to - 1 && byte < to;) {
    const [next, size] = charAt(text, at);
    if (first < 0 && byte + size > from) first = at;
    at = next; byte += size; last = at;
  }
  return first < 0 ? [node.from, node.to] : [first, last];
};
// Bytes of the characters of a string or number that touch source positions [a, b]; a caret takes the one after it.
const bytesOf = (text, node, a, b) => {
  if (node.kind === 'number') return [Math.max(0, a - node.from), Math.max(1, Math.min(node.to, Math.max(b, a + 1)) - node.from)];
  let from = -1, to = 0, byte = 0, size = 0;
  for (let at = node.from + 1; at < node.to - 1;) {
    let next;
    [next, size] = charAt(text, at);
    if (next > a && (at < b || (a === b && from < 0))) { if (from < 0) from = byte; to = byte + size; }
    at = next; byte += size;
  }
  if (from < 0) return byte ? [Math.max(0, byte - size), byte] : null;
  return [from, to];
};
// The fields that a caret or a selection [a, b] in an editor points at.
const fieldsAt = (scan, a, b) => {
  let inner = null;
  for (const node of scan.nodes) {
    if (node.keyFrom >= 0 && a >= node.keyFrom && b <= node.keyTo) return [{ steps: node.steps, from: null, to: null }];
    if (a >= node.from && b <= node.to) inner = node;
  }
  if (!inner) return [];
  if (inner.kind === 'string' || inner.kind === 'number') {
    const range = bytesOf(scan.text, inner, a, b);
    return range ? [{ steps: inner.steps, from: range[0], to: range[1] }] : [{ steps: inner.steps, from: null, to: null }];
  }
  if (a === b) return inner.steps.length > 1 ? [{ steps: inner.steps, from: null, to: null }] : [];
  const found = [];
  for (const node of scan.nodes) {
    if (node.to <= a || node.from >= b || node.kind === 'object' || node.kind === 'array') continue;
    if (node.kind !== 'string' || (a <= node.from && b >= node.to)) found.push({ steps: node.steps, from: null, to: null });
    else { const range = bytesOf(scan.text, node, Math.max(a, node.from + 1), Math.min(b, node.to - 1)); if (range) found.push({ steps: node.steps, from: range[0], to: range[1] }); }
    if (found.length >= MOST_PIECES) break;
  }
  return found;
};
// Where a field stands in a scanned text: source positions, or null. A field inside a JSON string is that string.
const placeOf = (scan, field) => {
  for (let size = field.steps.length; size > 0; size--) {
    const node = scan.byKey.get(keyOf(field.steps.slice(0, size)));
    if (!node) continue;
    if (size === 1 && field.steps.length > 1) return null;
    if (size < field.steps.length) return node.kind === 'string' ? [node.from, node.to] : null;
    if (field.key && node.keyFrom >= 0) return [node.keyFrom, node.keyTo];
    if (field.from === null) return node.kind === 'object' || node.kind === 'array' ? (node.keyFrom >= 0 ? [node.keyFrom, node.keyTo] : [node.from, node.to]) : [node.from, node.to];
    return sourceOf(scan.text, node, field.from, field.to);
  }
  return null;
};

// ---- ranges ---------------------------------------------------------------------------------------------------------
const merged = (ranges) => {
  const sorted = ranges.filter(([a, b]) => b > a).sort((x, y) => x[0] - y[0]), out = [];
  for (const [a, b] of sorted) {
    const last = out[out.length - 1];
    if (last && a <= last[1]) last[1] = Math.max(last[1], b); else out.push([a, b]);
  }
  return out;
};
// Does [a, b) touch one of the ranges? `ranges` are merged.
const touches = (ranges, a, b) => {
  if (!ranges.length || b <= a || ranges[0][0] >= b) return false;
  let low = 0, high = ranges.length - 1;
  while (low < high) { const mid = (low + high + 1) >> 1; if (ranges[mid][0] < b) low = mid; else high = mid - 1; }
  return ranges[low][1] > a;
};
const segmentsIn = (pane, from, to) => {
  const rows = [];
  if (!pane.numSegments || to <= from) return rows;
  for (let s = Math.max(0, pane.segmentAt(from)); s < pane.numSegments && pane.segments.start[s] < to; s++) if (pane.segments.end[s] > from) rows.push(s);
  return rows;
};

// ---- fields of a pane -----------------------------------------------------------------------------------------------
const fieldIndex = (pane) => {
  if (pane.fieldIndex) return pane.fieldIndex;
  const steps = pane.fieldSteps || (pane.fieldSteps = pane.paths.map((path) => splitPath(path) || [])), rows = pane.paths.map(() => []), byKey = new Map();
  for (let s = 0; s < pane.numSegments; s++) if (pane.segments.path[s] >= 0) rows[pane.segments.path[s]].push(s);
  steps.forEach((list, p) => byKey.set(keyOf(list), p));
  return (pane.fieldIndex = { steps, rows, byKey });
};
// The bytes of its field that a segment stands for. An escaped character has no offset of its own: it stands for what
// lies between its neighbours. Null where nothing says it (a key, a repr).
const fieldSpan = (pane, s) => {
  const { start, end, path, field } = pane.segments;
  if (field[s] >= 0) return [field[s], field[s] + end[s] - start[s]];
  const near = (k, edge) => k >= 0 && k < pane.numSegments && path[k] === path[s] && edge(k) && field[k] >= 0;
  const before = near(s - 1, (k) => end[k] === start[s]) ? field[s - 1] + end[s - 1] - start[s - 1] : null;
  const after = near(s + 1, (k) => start[k] === end[s]) ? field[s + 1] : null;
  if (before === null && after === null) return null;
  return [before ?? 0, after ?? before + 1];
};
const bytesOfField = (pane, field) => {
  const { steps, rows, byKey } = fieldIndex(pane), { start, end } = pane.segments, exact = byKey.get(keyOf(field.steps)), found = [];
  const whole = field.from === null;
  if (exact !== undefined) {
    for (const s of rows[exact]) {
      const span = fieldSpan(pane, s);
      if (whole || !span) { if (whole) found.push([start[s], end[s]]); continue; }
      if (span[0] >= field.to || span[1] <= field.from) continue;
      if (pane.segments.field[s] < 0) found.push([start[s], end[s]]);
      else found.push([start[s] + Math.max(0, field.from - span[0]), start[s] + Math.min(span[1], field.to) - span[0]]);
    }
  }
  // A whole object, or a string that was read as JSON before rendering: all that lies below.
  if (whole || exact === undefined) steps.forEach((list, p) => { if (list.length > field.steps.length && startsWith(list, field.steps)) for (const s of rows[p]) found.push([start[s], end[s]]); });
  return merged(found);
};
const fieldsOfBytes = (pane, ranges) => {
  const { steps } = fieldIndex(pane), { start, end, path } = pane.segments, found = [];
  for (const [a, b] of ranges) {
    for (const s of segmentsIn(pane, a, b)) {
      if (path[s] < 0) continue;
      const list = steps[path[s]], span = fieldSpan(pane, s);
      if (!span) found.push({ steps: list, from: null, to: null, key: pane.text(start[s], end[s]) === String(list[list.length - 1]) });
      else if (pane.segments.field[s] < 0) found.push({ steps: list, from: span[0], to: span[1], key: false });
      else found.push({ steps: list, from: span[0] + Math.max(0, a - start[s]), to: span[1] - Math.max(0, end[s] - b), key: false });
      if (found.length >= MOST_PIECES) return found;
    }
  }
  return found;
};

// ---- parts of the prompt --------------------------------------------------------------------------------------------
// The part of every segment's tokens; the last two: of tokens that are in none, and of the generation prompt.
const partsOfSegments = (pane) => {
  if (pane.partsKnown) return pane.partsKnown;
  const { kind, path } = pane.segments, known = new Map(), { steps } = fieldIndex(pane), keys = new Array(pane.numSegments);
  for (let s = 0; s < keys.length; s++) {
    const of = path[s] * 64 + kind[s];
    let key = known.get(of);
    if (key === undefined) { key = partOfSegment(steps, path[s], KINDS[kind[s]]); known.set(of, key); }
    keys[s] = key;
  }
  return (pane.partsKnown = keys);
};
const partOfSegment = (steps, path, kind) => {
  if (path >= 0) {
    const [root, k] = steps[path];
    if (typeof k === 'number') return root + '[' + k + ']';
    if (root === 'chat_template_kwargs') return 'kwarg';
  }
  return kind === 'special' ? 'template' : kind;
};
// Which part of the prompt a token is counted for: a message, a tool, a document, the arguments, the template, ...
const partOf = (pane, i) => (pane.has(i, 'generation_prompt') ? 'generation_prompt' : pane.segment[i] < 0 ? 'inserted' : partsOfSegments(pane)[pane.segment[i]]);
const PART_ORDER = ['template', 'inserted', 'clock', 'special', 'tools', 'documents', 'kwarg', 'messages', 'derived', 'unknown', 'generation_prompt'];
// Tokens of every part, in a fixed order; the sum is the number of tokens.
const countParts = (pane) => {
  if (pane.partCounts) return pane.partCounts;
  const segments = new Uint32Array(pane.numSegments), counts = new Map(), prompt = FLAG.generation_prompt, { flags, segment } = pane;
  const add = (key, n) => { if (n) counts.set(key, (counts.get(key) || 0) + n); };
  let inPrompt = 0, inNone = 0;
  for (let i = 0; i < pane.n; i++) if (flags[i] & prompt) inPrompt++; else if (segment[i] < 0) inNone++; else segments[segment[i]]++;
  partsOfSegments(pane).forEach((key, s) => add(key, segments[s]));
  add('inserted', inNone); add('generation_prompt', inPrompt);
  const rank = (key) => { const [root, k] = splitPath(key); return [PART_ORDER.indexOf(root), k ?? 0]; };
  return (pane.partCounts = [...counts].map(([key, n]) => ({ key, n, rank: rank(key) })).sort((x, y) => x.rank[0] - y.rank[0] || x.rank[1] - y.rank[1]));
};
const tokensOfPart = (pane, key) => {
  const found = [];
  for (let i = 0; i < pane.n; i++) {
    if (partOf(pane, i) !== key) continue;
    const last = found[found.length - 1];
    if (last && last[1] === i) last[1] = i + 1; else found.push([i, i + 1]);
  }
  return found;
};

// ---- links ----------------------------------------------------------------------------------------------------------
const bytesOfTokens = (pane, tokens) => {
  const found = [];
  for (const [i, j] of tokens) for (let k = i; k < j; k++) if (pane.end[k] > pane.start[k]) found.push([pane.start[k], pane.end[k]]);
  return merged(found);
};
const bytesOfLine = (pane, line) => {
  const { start, end } = pane.segments, found = [];
  for (let s = 0; s < pane.numSegments; s++) if (pane.segments.line[s] === line) found.push([start[s], end[s]]);
  return merged(found);
};
const linesOf = (pane, ranges) => {
  const lines = new Set();
  for (const [a, b] of ranges) for (const s of segmentsIn(pane, a, b)) if (pane.segments.line[s] > 0) lines.add(pane.segments.line[s]);
  return lines;
};
// The bytes of pane p that correspond to bytes of pane q, by the alignment of rows.
const mappedByRows = (state, q, p, from, to) => {
  const { rows, panes } = state, found = [];
  if (rows.apart(q, p) || to <= from) return found;
  const last = rows.ofToken(q, Math.max(0, panes[q].tokenAt(to - 1)));
  for (let k = rows.ofToken(q, Math.max(0, panes[q].tokenAt(from))); k <= last; k++) {
    const [s0, s1] = rows.span(q, k), a = Math.max(from, s0), b = Math.min(to, s1);
    const span = b > a ? rows.mapped(q, p, k, a, b) : null;
    if (span) found.push(span);
  }
  return found;
};
// The bytes of pane p: what the same field wrote there, else what stands in the aligned row.
const mappedBytes = (state, q, p, ranges) => {
  const pane = state.panes[q], other = state.panes[p], found = [];
  const { steps } = fieldIndex(pane), { start, end, path, field } = pane.segments;
  let pieces = 0;
  for (const [from, to] of ranges) {
    let at = from;
    const rest = (upTo) => { if (upTo > at) found.push(...mappedByRows(state, q, p, at, upTo)); };
    for (const s of segmentsIn(pane, from, to)) {
      if (++pieces > MOST_PIECES) return merged(found);
      if (path[s] < 0 || field[s] < 0) continue;
      const a = Math.max(from, start[s]), b = Math.min(to, end[s]);
      const there = bytesOfField(other, { steps: steps[path[s]], from: field[s] + a - start[s], to: field[s] + b - start[s] });
      if (!there.length) continue;
      rest(a); at = b;
      found.push(...there);
    }
    rest(to);
  }
  return merged(found);
};
const tokensTouching = (pane, ranges) => {
  const found = [];
  for (const [a, b] of ranges) {
    let i = Math.max(0, pane.tokenAt(a));
    while (i < pane.n && pane.end[i] <= a) i++;
    let j = i;
    while (j < pane.n && pane.start[j] < b) j++;
    if (j > i) found.push([i, j]);
  }
  return found;
};
const side = (pane, bytes, tokens, lines) => ({ bytes, tokens: tokens || tokensTouching(pane, bytes), lines: lines || linesOf(pane, bytes) });

const linkOf = (state, pick) => {
  const { panes } = state;
  if (pick.kind === 'fields') {
    const bytes = panes.map((pane) => merged(pick.fields.flatMap((field) => bytesOfField(pane, field))));
    return { q: null, panes: panes.map((pane, q) => side(pane, bytes[q])), fields: [] };
  }
  const { q } = pick, pane = panes[q];
  const link = (own, there, fields) => ({ q, panes: panes.map((other, p) => (p === q ? own : there(other, p))), fields });
  if (pick.kind === 'part') {
    const part = (each) => { const tokens = tokensOfPart(each, pick.key); return side(each, bytesOfTokens(each, tokens), tokens); }, own = part(pane);
    return link(own, part, fieldsOfBytes(pane, own.bytes));
  }
  if (pick.kind === 'tokens') {
    const bytes = bytesOfTokens(pane, [[pick.from, pick.to]]);
    const there = (other, p) => { const alone = !bytes.length && state.rows.linked(q, pick.from, p); return side(other, mappedBytes(state, q, p, bytes), alone ? [alone] : null); };  // a token without bytes
    return link(side(pane, bytes, [[pick.from, pick.to]]), there, fieldsOfBytes(pane, bytes));
  }
  const bytes = pick.kind === 'line' ? bytesOfLine(pane, pick.line) : merged([[pick.from, pick.to]]);
  const own = side(pane, bytes, null, pick.kind === 'line' ? new Set([pick.line]) : null);
  return link(own, (other, p) => side(other, mappedBytes(state, q, p, bytes)), fieldsOfBytes(pane, bytes));
};
const samePick = (a, b) => a === b || Boolean(a && b && JSON.stringify(a) === JSON.stringify(b));
