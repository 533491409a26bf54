// Rows: logical lines of all panes side by side. Every pane is aligned with the first one, the baseline. No DOM here.
// A row is a logical line with the empty lines after it, and ends where the template begins another message; it ends at the
// first token boundary at or after that, so a token is never cut. Rows stand beside each other by the field that wrote them,
// then by their text, then by their number within their message.

const LCS_CELLS = 1000000;  // a larger stretch of changed rows is first split at rows that occur once on either side

// What the paths of a pane say: the message (-1: none), whether it is a role, and a number for the path.
const pathFacts = new WeakMap();
const factsOf = (paths) => {
  let facts = pathFacts.get(paths);
  if (facts) return facts;
  facts = { message: new Int32Array(paths.length), role: new Uint8Array(paths.length), hash: new Int32Array(paths.length) };
  paths.forEach((path, p) => {
    const found = /^messages\[(\d+)\](\.role$)?/.exec(path);
    facts.message[p] = found ? +found[1] : -1;
    facts.role[p] = found && found[2] ? 1 : 0;
    let hash = 0x811c9dc5;
    for (let k = 0; k < path.length; k++) hash = Math.imul(hash ^ path.charCodeAt(k), 0x01000193);
    facts.hash[p] = hash;
  });
  pathFacts.set(paths, facts);
  return facts;
};
// Where messages begin: the token, and the message; the generation prompt is the last one.
const BEFORE_ALL = -1, AT_PROMPT = 0x7fffffff;
const turnCuts = (pane) => {
  if (pane.turns) return pane.turns;
  const turns = { token: [], message: [] }, { segments, numSegments, start, n } = pane, { message } = factsOf(pane.paths);
  const add = (i, which) => { const last = turns.token.length - 1; if (last >= 0 && turns.token[last] >= i) turns.message[last] = which; else if (i < n) { turns.token.push(i); turns.message.push(which); } };
  let known = BEFORE_ALL, end = 0;
  for (let s = 0; s < numSegments; s++) {
    const path = segments.path[s], which = path < 0 ? -1 : message[path];
    if (which < 0 || segments.end[s] <= segments.start[s]) continue;
    if (which !== known) {
      const at = turnStart(pane, end, segments.start[s], known === BEFORE_ALL);
      let i = Math.max(0, pane.tokenAt(at));
      while (i < n && start[i] < at) i++;
      add(i, which);
    }
    known = which; end = segments.end[s];
  }
  let prompt = n;
  while (prompt > 0 && pane.has(prompt - 1, 'generation_prompt')) prompt--;
  if (turns.token.length && prompt < n) add(prompt, AT_PROMPT);
  else if (turns.token.length && n) {  // a template that always ends in one
    const marks = marksIn(pane, end, pane.bytes.length);
    if (marks.length > 1) add(pane.tokenAt(marks[1]), AT_PROMPT);
  }
  return (pane.turns = turns);
};
// Where control tokens begin in a stretch of bytes.
const marksIn = ({ start, end, n, flags }, from, to) => {
  const marks = [], control = FLAG.special | FLAG.added;
  for (let i = Math.max(0, lastAtMost(start, from, n)); i < n && start[i] < to; i++) if (start[i] >= from && end[i] > start[i] && flags[i] & control) marks.push(start[i]);
  return marks;
};
// The byte at which a message begins whose first text stands at `to`, the text of the one before ends at `from`: after what
// ends that one. Of two control tokens the first one ends a message; a lone one does where only a line feed follows it.
const turnStart = (pane, from, to, first) => {
  const { bytes } = pane, marks = marksIn(pane, from, to), feed = (a, b) => { let at = bytes.indexOf(10, a); if (at < 0 || at >= b) return -1; while (at + 1 < b && bytes[at + 1] === 10) at++; return at + 1; };
  if (first) return marks.findLast((at) => at === 0 || bytes[at - 1] === 10) ?? 0;
  if (marks.length > 1) return marks[1];
  const line = feed(marks.length ? marks[0] : from, to), before = marks.length ? feed(from, marks[0]) : -1;
  if (marks.length && (before >= 0 || line < 0)) return marks[0];
  return line >= 0 ? line : from;
};

// The tokens at which a pane's rows begin, and the number of tokens at the end.
const cutsOf = (pane) => {
  if (pane.cuts) return pane.cuts;
  const lines = lineCuts(pane), turns = turnCuts(pane).token, cuts = [];
  for (let a = 0, b = 0; a < lines.length || b < turns.length;) {
    const next = b >= turns.length || lines[a] <= turns[b] ? lines[a++] : turns[b++];
    if (next !== cuts[cuts.length - 1]) cuts.push(next);
  }
  return (pane.cuts = Uint32Array.from(cuts));
};
const lineCuts = (pane) => {
  const { bytes, start, n } = pane, cuts = n ? [0] : [];
  for (let feed = bytes.indexOf(10), i = 0; feed >= 0 && i < n; feed = bytes.indexOf(10, feed + 1)) {
    if (bytes[feed + 1] === 10) continue;
    while (i < n && start[i] <= feed) i++;
    if (i < n && i !== cuts[cuts.length - 1]) cuts.push(i);
  }
  cuts.push(n);
  return cuts;
};
const edgesOf = (pane) => {
  if (pane.edges) return pane.edges;
  const cuts = cutsOf(pane), last = cuts.length - 1, edges = new Uint32Array(cuts.length);
  for (let r = 1; r < last; r++) edges[r] = pane.start[cuts[r]];
  if (last > 0) edges[last] = pane.bytes.length;
  return (pane.edges = edges);
};
// A number for each row's text; equal texts have equal numbers.
const hashesOf = (pane) => {
  if (pane.hashes) return pane.hashes;
  const edges = edgesOf(pane), { bytes } = pane, hashes = new Int32Array(edges.length - 1);
  for (let r = 0; r < hashes.length; r++) {
    let hash = 0x811c9dc5;
    for (let at = edges[r]; at < edges[r + 1]; at++) hash = Math.imul(hash ^ bytes[at], 0x01000193);
    hashes[r] = hash;
  }
  return (pane.hashes = hashes);
};
// Of every row: the message it belongs to, and numbers for its text in that message and for what a field wrote of it (its
// text again where none did).
const writersOf = (pane) => {
  if (pane.writers) return pane.writers;
  const edges = edgesOf(pane), cuts = cutsOf(pane), turns = turnCuts(pane), hashes = hashesOf(pane), rows = hashes.length, { bytes, numSegments } = pane, { start, end, path } = pane.segments, facts = factsOf(pane.paths);
  const message = new Int32Array(rows), text = new Int32Array(rows), field = new Int32Array(rows);
  for (let r = 0, turn = -1, first = 0; r < rows; r++) {
    while (turn + 1 < turns.token.length && turns.token[turn + 1] <= cuts[r]) turn++;
    message[r] = turn < 0 ? BEFORE_ALL : turns.message[turn];
    field[r] = text[r] = Math.imul(hashes[r] ^ message[r], 0x01000193);
    while (first < numSegments && end[first] <= edges[r]) first++;
    let of = -1;
    for (let s = first; s < numSegments && start[s] < edges[r + 1]; s++) {
      if (path[s] < 0 || (of >= 0 && facts.role[path[s]])) continue;
      of = path[s];
      if (!facts.role[of]) break;
    }
    if (of < 0) continue;
    let hash = facts.hash[of];
    for (let s = first; s < numSegments && start[s] < edges[r + 1]; s++) if (path[s] === of) for (let at = Math.max(start[s], edges[r]), to = Math.min(end[s], edges[r + 1]); at < to; at++) hash = Math.imul(hash ^ bytes[at], 0x01000193);
    field[r] = hash;
  }
  return (pane.writers = { message, text, field });
};
const sameValues = (A, a0, a1, B, b0, b1) => {
  if (a1 - a0 !== b1 - b0) return false;
  for (let k = 0; a0 + k < a1; k++) if (A[a0 + k] !== B[b0 + k]) return false;
  return true;
};

// For every row of A the equal row of B that it stands beside, in order; -1 for none.
const matchRows = (A, B, found = new Int32Array(A.length).fill(-1), part = [0, A.length, 0, B.length]) => {
  const todo = [part];
  while (todo.length) {
    let [a0, a1, b0, b1] = todo.pop();
    while (a0 < a1 && b0 < b1 && A[a0] === B[b0]) found[a0++] = b0++;
    while (a0 < a1 && b0 < b1 && A[a1 - 1] === B[b1 - 1]) found[--a1] = --b1;
    if (a0 === a1 || b0 === b1) continue;
    if ((a1 - a0) * (b1 - b0) <= LCS_CELLS) longestCommon(A, a0, a1, B, b0, b1, found);
    else for (const part of splitAtUnique(A, a0, a1, B, b0, b1, found)) todo.push(part);
  }
  return found;
};
const longestCommon = (A, a0, a1, B, b0, b1, found) => {
  const width = b1 - b0 + 1, table = new Uint16Array((a1 - a0 + 1) * width);
  for (let x = a1 - a0 - 1; x >= 0; x--) {
    for (let y = width - 2; y >= 0; y--) {
      const at = x * width + y;
      table[at] = A[a0 + x] === B[b0 + y] ? table[at + width + 1] + 1 : Math.max(table[at + width], table[at + 1]);
    }
  }
  for (let x = 0, y = 0; x < a1 - a0 && y < width - 1;) {
    const at = x * width + y;
    if (A[a0 + x] === B[b0 + y]) found[a0 + x++] = b0 + y++;
    else if (table[at + width] >= table[at + 1]) x++; else y++;
  }
};
// Rows that occur once on both sides, the longest run of them that is in order; gives the stretches between them.
const splitAtUnique = (A, a0, a1, B, b0, b1, found) => {
  const once = (values, from, to) => { const at = new Map(); for (let k = from; k < to; k++) at.set(values[k], at.has(values[k]) ? -1 : k); return at; };
  const there = once(B, b0, b1), pairs = [];
  for (const [value, x] of once(A, a0, a1)) { const y = there.get(value); if (x >= 0 && y >= 0) pairs.push([x, y]); }
  pairs.sort((p, q) => p[0] - q[0]);
  const ends = [], before = new Array(pairs.length);  // patience: ends[k] is the last pair of the best run of k + 1
  pairs.forEach(([, y], k) => {
    let low = 0, high = ends.length;
    while (low < high) { const mid = (low + high) >> 1; if (pairs[ends[mid]][1] < y) low = mid + 1; else high = mid; }
    before[k] = low ? ends[low - 1] : -1;
    ends[low] = k;
  });
  const parts = [];
  let [x1, y1] = [a1, b1];
  for (let k = ends.length ? ends[ends.length - 1] : -1; k >= 0; k = before[k]) {
    const [x, y] = pairs[k];
    found[x] = y;
    parts.push([x + 1, x1, y + 1, y1]);
    [x1, y1] = [x, y];
  }
  if (parts.length) parts.push([a0, x1, b0, y1]);
  return parts;
};
// The stretches of rows without a partner.
const unmatchedParts = (partner, others) => {
  const parts = [];
  for (let x = 0, y = 0; x < partner.length;) {
    if (partner[x] >= 0) { y = partner[x++] + 1; continue; }
    const from = x;
    while (x < partner.length && partner[x] < 0) x++;
    parts.push([from, x, y, x < partner.length ? partner[x] : others]);
  }
  return parts;
};
// Beside each row of pane a the one of pane b that the same field wrote, else an equal one of the same message, else in a
// stretch of others the one of the same number in that message; -1 for none. Where nothing says who wrote a row, its text does.
const partnersOf = (a, b) => {
  const traced = turnCuts(a).token.length && turnCuts(b).token.length, [A, B] = [writersOf(a), writersOf(b)], count = B.text.length;
  if (!traced) {
    const partner = matchRows(hashesOf(a), hashesOf(b));
    for (const [from, to, y, stop] of unmatchedParts(partner, count)) for (let k = 0; from + k < to && y + k < stop; k++) partner[from + k] = y + k;
    return partner;
  }
  const partner = matchRows(A.field, B.field);
  for (const part of unmatchedParts(partner, count)) matchRows(A.text, B.text, partner, part);
  for (const [from, to, first, stop] of unmatchedParts(partner, count)) {
    for (let x = from, y = first; x < to; x++) {
      while (y < stop && B.message[y] < A.message[x]) y++;
      if (y < stop && B.message[y] === A.message[x]) partner[x] = y++;
    }
  }
  return partner;
};

// rows.token[q][k] is the first token of row k in pane q; rows.own[q][k] is the row's number in that pane, -1 where it
// has none. tags[q][k]: SAME, TEXT_DIFFERS or IDS_DIFFER against the baseline; `tag` is of the row. `stale`: panes whose
// answer is not of the present input; nothing is claimed about them. `failed`: those that stay so, whose lines stand one
// below the other beside whatever the others show.
class Rows {
  constructor(panes, stale = [], failed = []) {
    this.panes = panes; this.known = new Map(); this.stale = panes.map((_, q) => Boolean(stale[q]));
    const counts = panes.map((pane) => Math.max(0, cutsOf(pane).length - 1)), [rows] = counts;
    const partner = panes.map((pane, q) => (!q ? null : failed[0] || failed[q] ? Int32Array.from({ length: rows }, (_each, x) => (x < counts[q] ? x : -1)) : partnersOf(panes[0], pane)));
    const most = counts.reduce((sum, count) => sum + count, 0), own = panes.map(() => new Int32Array(most).fill(-1)), next = panes.map(() => 0);
    let n = 0;
    for (let x = 0; x <= rows; x++) {
      let height = 0;
      for (let q = 1; q < panes.length; q++) {
        const until = x === rows ? counts[q] : partner[q][x];
        for (let extra = 0; next[q] < until; extra++) { own[q][n + extra] = next[q]++; height = Math.max(height, extra + 1); }
      }
      n += height;
      if (x === rows) break;
      own[0][n] = x;
      for (let q = 1; q < panes.length; q++) if (partner[q][x] >= 0) own[q][n] = next[q]++;
      n++;
    }
    this.n = Math.max(n, 1);
    this.own = own.map((column) => (n ? column.subarray(0, n) : Int32Array.of(-1)));
    this.token = panes.map((pane, q) => this.firstTokens(pane, this.own[q]));
    this.tagAll();
  }
  firstTokens(pane, own) {
    const cuts = cutsOf(pane), token = new Uint32Array(this.n + 1);
    token[this.n] = pane.n;
    for (let k = this.n - 1; k >= 0; k--) token[k] = own[k] >= 0 ? cuts[own[k]] : token[k + 1];
    return token;
  }
  tagAll() {
    this.tag = new Uint8Array(this.n);
    this.tags = this.panes.map((_, q) => (q ? new Uint8Array(this.n) : this.tag));
    for (let q = 1; q < this.panes.length; q++) {
      if (this.apart(0, q)) continue;
      for (let k = 0; k < this.n; k++) {
        const tag = this.tags[q][k] = this.tagOf(q, k);
        if (tag && this.tag[k] !== TEXT_DIFFERS) this.tag[k] = tag;
      }
    }
  }
  tagOf(q, k) {
    const [a, b] = [this.panes[0], this.panes[q]], [x, y] = [this.own[0][k], this.own[q][k]];
    if (x < 0 || y < 0) return x < 0 && y < 0 ? SAME : TEXT_DIFFERS;
    const ea = edgesOf(a), eb = edgesOf(b), ca = cutsOf(a), cb = cutsOf(b);
    if (!sameValues(a.bytes, ea[x], ea[x + 1], b.bytes, eb[y], eb[y + 1])) return TEXT_DIFFERS;
    return sameValues(a.ids, ca[x], ca[x + 1], b.ids, cb[y], cb[y + 1]) ? SAME : IDS_DIFFER;
  }
  // Whether nothing may be said about what corresponds in two panes.
  apart(p, q) { return this.stale[p] || this.stale[q]; }
  // Bytes of row k in pane q.
  span(q, k) {
    const pane = this.panes[q], at = (row) => {
      if (row === 0) return 0;
      const token = this.token[q][row];
      return token < pane.n ? pane.start[token] : pane.bytes.length;
    };
    return [at(k), at(k + 1)];
  }
  ofToken(q, i) { return lastAtMost(this.token[q], i, this.n); }
  // Common bytes at both ends of a row of two panes.
  edges(p, q, k) {
    const key = (k * 64 + p * 8 + q), known = this.known.get(key);
    if (known) return known;
    const [a0, a1] = this.span(p, k), [b0, b1] = this.span(q, k), A = this.panes[p].bytes, B = this.panes[q].bytes;
    const most = Math.min(a1 - a0, b1 - b0);
    let head = 0, tail = 0;
    while (head < most && A[a0 + head] === B[b0 + head]) head++;
    while (tail < most - head && A[a1 - 1 - tail] === B[b1 - 1 - tail]) tail++;
    const ends = { head, tail };
    this.known.set(key, ends);
    return ends;
  }
  // The bytes of row k in pane q that differ from the baseline's (in the baseline: from any other pane's); null for none.
  changed(q, k) {
    const others = (q ? [0] : this.panes.map((_, p) => p)).filter((p) => p !== q && this.tags[q || p][k] === TEXT_DIFFERS);
    const [from, to] = this.span(q, k), ends = others.map((p) => this.edges(q, p, k));
    return ends.length ? [from + Math.min(...ends.map(({ head }) => head)), to - Math.min(...ends.map(({ tail }) => tail))] : null;
  }
  // Every stretch that differs, in order: its row k and where it begins in each pane (`at`, a token; undefined where the
  // pane has nothing of it). Rows that only one side has and that follow each other are one stretch.
  differences() {
    if (this.stops) return this.stops;
    this.stops = [];
    for (let k = 0; k < this.n; k++) {
      if (this.tag[k] === SAME) continue;
      const found = new Map();
      for (let q = 1; q < this.panes.length; q++) {
        if (this.tags[q][k] === SAME || this.goesOn(q, k)) continue;
        for (const [i, j] of this.stretches(q, k)) {
          if (!found.has(i)) found.set(i, { k, at: new Array(this.panes.length).fill(undefined) });
          const { at } = found.get(i);
          at[0] = i; at[q] = j;
        }
      }
      this.stops.push(...[...found.values()].sort((x, y) => (x.at[0] ?? -1) - (y.at[0] ?? -1)));
    }
    return this.stops;
  }
  goesOn(q, k) {
    const only = (row) => (this.tags[q][row] !== TEXT_DIFFERS ? 0 : this.own[0][row] < 0 ? 1 : this.own[q][row] < 0 ? 2 : 0);
    return k > 0 && only(k) > 0 && only(k) === only(k - 1);
  }
  // Where the stretches of a differing row begin: [token of the baseline, token of pane q].
  stretches(q, k) {
    if (this.tags[q][k] === IDS_DIFFER) return this.otherIds(q, k);
    const { head } = this.edges(0, q, k);
    return [[0, q].map((p) => {
      if (this.own[p][k] < 0) return undefined;
      const at = this.span(p, k)[0] + head;
      let i = this.token[p][k];
      while (i + 1 < this.token[p][k + 1] && this.panes[p].end[i] <= at) i++;
      return i;
    })];
  }
  // In a row of equal text: the cells between bytes at which both sides begin a token are alike if each is one same id.
  otherIds(q, k) {
    const [a, b] = [this.panes[0], this.panes[q]], [a0, a1] = this.span(0, k), b0 = this.span(q, k)[0], to = [this.token[0][k + 1], this.token[q][k + 1]], found = [];
    let [i, j, open] = [this.token[0][k], this.token[q][k], false];
    while (i < to[0] && j < to[1]) {
      const [x, y] = [i++, j++];
      while (i < to[0] || j < to[1]) {
        const ahead = (i < to[0] ? a.start[i] : a1) - a0 - ((j < to[1] ? b.start[j] - b0 : a1 - a0));
        if (!ahead) break;
        if (ahead < 0) i++; else j++;
      }
      const other = i - x > 1 || j - y > 1 || a.ids[x] !== b.ids[y];
      if (other && !open) found.push([x, y]);
      open = other;
    }
    if ((i < to[0] || j < to[1]) && !open) found.push([Math.min(i, to[0] - 1), Math.min(j, to[1] - 1)]);
    return found;
  }
  // The byte range of pane p that corresponds to bytes [from, to) of row k in pane q; null if none does.
  mapped(q, p, k, from, to) {
    const [s0, s1] = this.span(q, k), [o0, o1] = this.span(p, k), { head, tail } = this.edges(q, p, k);
    if (to <= s0 + head) return [o0 + from - s0, o0 + to - s0];
    if (from >= s1 - tail) return [o1 - (s1 - from), o1 - (s1 - to)];
    return o1 - tail > o0 + head ? [o0 + head, o1 - tail] : null;
  }
  // The tokens [i, j) of pane p that correspond to a token of pane q; null for none.
  linked(q, i, p) {
    if (this.apart(q, p)) return null;
    const pane = this.panes[q], other = this.panes[p], k = this.ofToken(q, i), from = this.token[p][k], to = this.token[p][k + 1];
    if (pane.start[i] === pane.end[i]) {
      for (let j = from; j < to; j++) if (other.start[j] === other.end[j] && other.ids[j] === pane.ids[i]) return [j, j + 1];
      return null;
    }
    const span = this.mapped(q, p, k, pane.start[i], pane.end[i]);
    if (!span) return null;
    let first = from;
    while (first < to && other.end[first] <= span[0]) first++;
    let last = first;
    while (last < to && other.start[last] < span[1]) last++;
    return last > first ? [first, last] : null;
  }
}

// Where two panes part, as far as bytes and ids tell it (the reason comes from the server); null where they do not.
const firstDifference = (a, b) => {
  const prefix = (A, B) => { const size = Math.min(A.length, B.length); let k = 0; while (k < size && A[k] === B[k]) k++; return k; };
  const byte = prefix(a.bytes, b.bytes), past = (pane) => { let i = Math.max(0, pane.tokenAt(byte)); while (i < pane.n && pane.end[i] <= byte) i++; return i < pane.n ? i : null; };
  if (byte < a.bytes.length || byte < b.bytes.length) return { byte, token_a: past(a), token_b: past(b) };
  const token = Math.min(prefix(a.ids, b.ids), prefix(a.start, b.start), prefix(a.end, b.end)), at = (pane) => (token < pane.n ? token : null);
  return token < a.n || token < b.n ? { byte: null, token_a: at(a), token_b: at(b) } : null;
};
