// What the plots show, as numbers: pure functions of a pane's columns. No drawing here (view_plots.js).

const BEFORE = -1, PROMPT = -2, TOOLS = -3, DOCUMENTS = -4;  // turns that are no message
const ORIGINS = ['message', 'tool', 'document', 'kwarg', 'template', 'special', 'clock', 'derived', 'unknown', 'inserted', 'generation_prompt'];
const LONGEST_TOKEN = 16;  // tokens of this many bytes and more share a bar

const originKind = (pane, i) => (pane.has(i, 'generation_prompt') ? 'generation_prompt' : pane.segment[i] < 0 ? 'inserted' : KINDS[pane.segments.kind[pane.segment[i]]]);

// The turn that each token's own field names; BEFORE where none does.
const fieldTurns = (pane) => {
  const { steps } = fieldIndex(pane), turns = new Int32Array(pane.n).fill(BEFORE), roots = { tools: TOOLS, documents: DOCUMENTS };
  for (let i = 0; i < pane.n; i++) {
    const s = pane.segment[i], path = s < 0 ? -1 : pane.segments.path[s];
    if (pane.has(i, 'generation_prompt')) turns[i] = PROMPT;
    else if (path >= 0) { const [root, k] = steps[path]; turns[i] = root === 'messages' && typeof k === 'number' ? k : roots[root] ?? BEFORE; }
  }
  return turns;
};
// Template text belongs to the turn that it opens or closes: between two messages, all up to the first control token with
// the white space after it closes the first; before the first message, all from the last control token on opens it.
const turnsOf = (pane) => {
  if (pane.plotTurns) return pane.plotTurns;
  const turns = fieldTurns(pane), control = (i) => pane.has(i, 'special') || pane.has(i, 'added'), blank = (i) => pane.slice(i).every((b) => b === 32 || (b >= 9 && b <= 13));
  const fill = (from, to, turn) => { for (let i = from; i < to; i++) if (turns[i] === BEFORE) turns[i] = turn; };
  let last = BEFORE, from = 0;
  for (let i = 0; i <= pane.n; i++) {
    const turn = i < pane.n ? turns[i] : PROMPT;
    if (turn < 0 && turn !== PROMPT) continue;
    let cut = from;
    if (last < 0) { cut = i; if (turn >= 0) { cut = from; for (let k = from; k < i; k++) if (control(k)) cut = k; } }
    else if (turn === PROMPT || turn === last) cut = i;
    else { while (cut < i && !control(cut)) cut++; if (cut === i) cut = from; else { cut++; while (cut < i && blank(cut) && !control(cut)) cut++; } }
    if (last >= 0) fill(from, cut, last);
    if (turn >= 0) fill(cut, i, turn);
    if (turn === PROMPT) { if (i < pane.n) while (i + 1 < pane.n && turns[i + 1] === PROMPT) i++; } else last = turn;
    from = i + 1;
  }
  return (pane.plotTurns = turns);
};

const turnKey = (turn) => ({ [BEFORE]: 'before', [PROMPT]: 'generation_prompt', [TOOLS]: 'tools', [DOCUMENTS]: 'documents' })[turn] ?? 'messages[' + turn + ']';
const turnRank = (turn) => ({ [BEFORE]: -3, [TOOLS]: -2, [DOCUMENTS]: -1, [PROMPT]: Infinity })[turn] ?? turn;

// Tokens of every turn by origin: [{turn, n, by: {origin: tokens}}], in the order of the request.
const stackOfTurns = (pane) => {
  const turns = turnsOf(pane), bars = new Map();
  for (let i = 0; i < pane.n; i++) {
    const bar = bars.get(turns[i]) || { turn: turns[i], n: 0, by: {} }, kind = originKind(pane, i);
    bar.n++; bar.by[kind] = (bar.by[kind] || 0) + 1;
    bars.set(turns[i], bar);
  }
  return [...bars.values()].sort((x, y) => turnRank(x.turn) - turnRank(y.turn));
};
// Tokens from the start of the prompt to the end of every message: [{turn, tokens}].
const lengthOverTurns = (pane) => {
  const turns = turnsOf(pane), ends = new Map();
  for (let i = 0; i < pane.n; i++) if (turns[i] >= 0 || turns[i] === PROMPT) ends.set(turns[i], i + 1);
  return [...ends].map(([turn, tokens]) => ({ turn, tokens })).sort((x, y) => turnRank(x.turn) - turnRank(y.turn));
};
// Tokens by their length in bytes: counts[0..LONGEST_TOKEN]; the last holds all that are longer.
const lengthHistogram = (pane) => {
  const counts = new Array(LONGEST_TOKEN + 1).fill(0);
  for (let i = 0; i < pane.n; i++) counts[Math.min(LONGEST_TOKEN, pane.end[i] - pane.start[i])]++;
  return counts;
};

const SCRIPTS = [
  ['space', /\p{White_Space}/u], ['digits', /\p{Nd}/u], ['latin', /\p{Script=Latin}/u], ['han', /\p{Script=Han}/u], ['kana', /[\p{Script=Hiragana}\p{Script=Katakana}]/u], ['hangul', /\p{Script=Hangul}/u],
  ['cyrillic', /\p{Script=Cyrillic}/u], ['greek', /\p{Script=Greek}/u], ['arabic', /\p{Script=Arabic}/u], ['hebrew', /\p{Script=Hebrew}/u], ['devanagari', /\p{Script=Devanagari}/u], ['thai', /\p{Script=Thai}/u],
  ['emoji', /\p{Extended_Pictographic}/u], ['punctuation', /[\p{P}\p{S}]/u], ['other', /[^]/u],
];
const scriptCache = new Map();
const scriptOf = (c) => {
  let found = scriptCache.get(c);
  if (found === undefined) { found = SCRIPTS.findIndex(([, pattern]) => pattern.test(c)); scriptCache.set(c, found); }
  return found;
};
// Bytes and tokens of every script, control tokens left out; a token over several scripts counts for each by its bytes.
const scriptCosts = (pane) => {
  const share = new Float64Array(pane.bytes.length), bytes = new Array(SCRIPTS.length).fill(0), tokens = new Array(SCRIPTS.length).fill(0), first = new Array(SCRIPTS.length).fill(-1);
  for (let i = 0; i < pane.n; i++) {
    const from = pane.start[i], to = pane.end[i];
    if (to > from && !pane.has(i, 'special') && !pane.has(i, 'added')) for (let b = from; b < to; b++) share[b] += 1 / (to - from);
  }
  let at = 0;
  for (const c of pane.text(0, pane.bytes.length)) {
    const point = c.codePointAt(0), size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4, s = scriptOf(c);
    for (let b = at; b < at + size; b++) if (share[b]) { bytes[s]++; tokens[s] += share[b]; if (first[s] < 0) first[s] = b; }
    at += size;
  }
  return SCRIPTS.map(([name], s) => ({ name, bytes: bytes[s], tokens: tokens[s], first: first[s] })).filter((row) => row.bytes);
};
