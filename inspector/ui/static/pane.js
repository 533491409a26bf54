// One pane's answer as typed columns over the UTF-8 bytes of the rendered text. No DOM here.
// Offsets are bytes, half-open. A token is a slice of bytes, never of text: it may hold part of a character.

class Pane {
  constructor(data) {
    Object.assign(this, data.info);
    this.bytes = utf8.encode(data.text);
    this.ids = u32(data.ids);
    this.n = this.ids.length;
    this.readSpans(data);
    this.flags = expand(data.flags, this.n, Uint32Array);
    this.segment = expand(data.segment, this.n, Int32Array);
    this.segments = {
      start: u32(data.segments.start), end: u32(data.segments.end), kind: rawBytes(data.segments.kind),
      line: i32(data.segments.line), path: i32(data.segments.path), field: i32(data.segments.field),
    };
    this.numSegments = this.segments.start.length;
    this.vocabIds = u32(data.vocab.ids);
    this.pieces = data.vocab.pieces;
    this.otherBytes = data.vocab.bytes;
  }

  readSpans(data) {
    const length = rawBytes(data.length), start = new Uint32Array(this.n), end = new Uint32Array(this.n);
    const long = new Map(data.long), jump = new Map(data.jump);
    for (let i = 0, at = 0; i < this.n; i++) {
      const to = jump.get(i);
      if (to !== undefined) at = to;
      start[i] = at;
      at += length[i] === 255 ? long.get(i) : length[i];
      end[i] = at;
    }
    this.start = start; this.end = end;
  }

  has(i, flag) { return (this.flags[i] & FLAG[flag]) !== 0; }
  slice(i) { return this.bytes.subarray(this.start[i], this.end[i]); }
  text(from, to) { return fromUtf8.decode(this.bytes.subarray(from, to)); }
  continues(i) { return this.end[i] > this.start[i] && (this.bytes[this.start[i]] & 0xc0) === 0x80; }
  groupEnd(i) { let j = i + 1; while (j < this.n && this.continues(j)) j++; return j; }
  groupStart(i) { while (i > 0 && this.continues(i)) i--; return i; }
  vocabIndex(i) { return lastAtMost(this.vocabIds, this.ids[i], this.vocabIds.length); }
  piece(i) { return this.pieces[this.vocabIndex(i)]; }
  // Bytes the id stands for; they differ from the span's where a normalizer or a prefix was at work.
  idBytes(i) { const other = this.otherBytes[this.vocabIndex(i)]; return other === undefined ? null : other; }
  tokenAt(byte) {
    if (!this.n) return -1;
    let i = this.start[0] <= byte ? lastAtMost(this.start, byte, this.n) : 0;
    while (i > 0 && this.end[i] <= byte && this.start[i - 1] === this.start[i]) i--;
    return i;
  }
  segmentAt(byte) { return this.numSegments ? lastAtMost(this.segments.start, byte, this.numSegments) : -1; }
  origin(i) {
    const s = this.segment[i];
    if (s < 0) return null;
    const origin = this.originOf(s);
    if (origin.field >= 0) origin.field += this.start[i] - this.segments.start[s];
    return origin;
  }
  originOf(s) {
    const path = this.segments.path[s];
    return { kind: KINDS[this.segments.kind[s]], line: this.segments.line[s], path: path < 0 ? '' : this.paths[path], field: this.segments.field[s] };
  }
}

// Rows: logical lines, aligned. rows.token[q][k] is the first token of row k in pane q.
class Rows {
  constructor(data, panes) {
    this.n = data.n;
    this.tag = rawBytes(data.tag);
    this.token = data.token.map(u32);
    this.panes = panes;
  }
  // Bytes of row k in pane q.
  span(q, k) {
    const pane = this.panes[q], at = (row) => {
      if (row === 0) return 0;
      const token = this.token[q][row];
      return token < pane.n ? pane.start[token] : pane.bytes.length;
    };
    return [at(k), at(k + 1)];
  }
  ofToken(q, i) {
    let k = lastAtMost(this.token[q], i, this.n);
    return k;
  }
  // Common bytes at both ends of a row that differs.
  edges(k) {
    const [a0, a1] = this.span(0, k), [b0, b1] = this.span(1, k), A = this.panes[0].bytes, B = this.panes[1].bytes;
    const most = Math.min(a1 - a0, b1 - b0);
    let head = 0, tail = 0;
    while (head < most && A[a0 + head] === B[b0 + head]) head++;
    while (tail < most - head && A[a1 - 1 - tail] === B[b1 - 1 - tail]) tail++;
    return { head, tail };
  }
  // The byte range of the other pane that corresponds to bytes [from, to) of row k in pane q; null if none does.
  mapped(q, k, from, to) {
    const other = 1 - q, [s0, s1] = this.span(q, k), [o0, o1] = this.span(other, k);
    if (this.tag[k] !== TEXT_DIFFERS) return [o0 + from - s0, o0 + to - s0];
    const { head, tail } = this.edges(k);
    if (to <= s0 + head) return [o0 + from - s0, o0 + to - s0];
    if (from >= s1 - tail) return [o1 - (s1 - from), o1 - (s1 - to)];
    return o1 - tail > o0 + head ? [o0 + head, o1 - tail] : null;
  }
  linked(q, i) {
    if (this.panes.length < 2) return null;
    const pane = this.panes[q], other = this.panes[1 - q], k = this.ofToken(q, i), from = this.token[1 - q][k], to = this.token[1 - q][k + 1];
    if (pane.start[i] === pane.end[i]) {
      for (let j = from; j < to; j++) if (other.start[j] === other.end[j] && other.ids[j] === pane.ids[i]) return [j, j + 1];
      return null;
    }
    const span = this.mapped(q, k, pane.start[i], pane.end[i]);
    if (!span) return null;
    let first = from;
    while (first < to && other.end[first] <= span[0]) first++;
    let last = first;
    while (last < to && other.start[last] < span[1]) last++;
    return last > first ? [first, last] : null;
  }
}
const SAME = 0, TEXT_DIFFERS = 1, IDS_DIFFER = 2;
let FLAG = {}, KINDS = [];
