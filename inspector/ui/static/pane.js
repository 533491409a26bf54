// One pane's answer as typed columns over the UTF-8 bytes of the rendered text. No DOM here.
// Offsets are bytes, half-open. A token is a slice of bytes, never of text: it may hold part of a character.
// A pane never changes: an answer makes the next one, from the middle of every column that changed (ui/delta.py).

const SAME = 0, TEXT_DIFFERS = 1, IDS_DIFFER = 2;
let FLAG = {}, KINDS = [];

const KIND_OF_COLUMN = { bytes: Uint8Array, ids: Uint32Array, flags: Uint32Array };
const NO_COLUMNS = Object.fromEntries(['bytes', 'ids', 'length', 'gap', 'flags', 'step', 'segment_length', 'segment_gap', 'kind', 'line', 'path', 'field'].map((name) => [name, new (KIND_OF_COLUMN[name] || Int32Array)(0)]));
const NO_INFO = { counts: { tokens: 0, special: 0, added: 0, from_content: 0 }, findings: [], assistant_from: null, budget: null, tensors: [], template: null };

// An answer of the server with its data as bytes; null for one that a newer request took over, undefined for none.
const opened = async (text) => {
  if (typeof text !== 'string') return undefined;
  const answer = JSON.parse(text);
  if (!answer || !answer.pane) return answer;
  const bytes = rawBytes(answer.pane.data);
  answer.pane.raw = answer.pane.deflate ? new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).arrayBuffer()) : bytes;
  return answer;
};
// Values whose first bytes all come first, then the second bytes, and so on.
const unpackedColumn = (raw, at, count, type, Kind) => {
  const width = +type[1];
  if (width === 1 && type[0] === 'u' && Kind === Uint8Array) return raw.subarray(at, at + count);
  const out = new Kind(count), shift = 32 - 8 * width;
  for (let w = 0; w < width; w++) for (let i = 0, from = at + w * count; i < count; i++) out[i] |= raw[from + i] << (8 * w);
  if (type[0] === 'i') for (let i = 0; i < count; i++) out[i] = (out[i] << shift) >> shift;
  return out;
};
const spliced = (old, size, head, tail, middle) => {
  const out = new old.constructor(size);
  out.set(old.subarray(0, head));
  out.set(middle, head);
  if (tail) out.set(old.subarray(old.length - tail), size - tail);
  return out;
};
// Lengths and gaps as starts and ends.
const spansOf = (length, gap) => {
  const start = new Uint32Array(length.length), end = new Uint32Array(length.length);
  for (let i = 0, at = 0; i < length.length; i++) { start[i] = at += gap[i]; end[i] = at += length[i]; }
  return [start, end];
};

class Pane {
  constructor(columns = NO_COLUMNS, paths = [], names = { pieces: new Map(), bytes: new Map() }, info = NO_INFO) {
    Object.assign(this, info, { columns, paths, names, info });
    this.bytes = columns.bytes; this.ids = columns.ids; this.flags = columns.flags;
    this.n = this.ids.length;
    [this.start, this.end] = spansOf(columns.length, columns.gap);
    this.segment = new Int32Array(this.n);
    for (let i = 0, at = 0; i < this.n; i++) this.segment[i] = at += columns.step[i];
    const [start, end] = spansOf(columns.segment_length, columns.segment_gap);
    this.segments = { start, end, kind: columns.kind, line: columns.line, path: columns.path, field: columns.field };
    this.numSegments = start.length;
    this.layouts = new Map();  // line breaks by what decides them (flow.js)
  }

  // The pane after an answer; `data.base` says whether it goes on from this one or from nothing.
  next(data) {
    const from = data.base === null ? new Pane() : this, columns = { ...from.columns };
    let at = 0;
    for (const [name, type, size, head, tail] of data.columns) {
      const count = size - head - tail;
      columns[name] = spliced(from.columns[name], size, head, tail, unpackedColumn(data.raw, at, count, type, from.columns[name].constructor));
      at += count * +type[1];
    }
    const { ids, pieces, bytes, reset } = data.vocabulary, names = reset ? { pieces: new Map(), bytes: new Map() } : from.names;
    ids.forEach((id, k) => { names.pieces.set(id, pieces[k]); if (k in bytes) names.bytes.set(id, bytes[k]); });
    const [head, tail, middle] = data.paths, { paths } = from, same = !middle.length && head + tail === paths.length;
    const pane = new Pane(columns, same ? paths : [...paths.slice(0, head), ...middle, ...paths.slice(paths.length - tail)], names, { ...from.info, ...data.info });
    if (data.base !== null) pane.before = { pane: from, ...unchanged(pane, data.columns) };
    from.before = null;
    if (same && from.fieldSteps) pane.fieldSteps = from.fieldSteps;
    return pane;
  }

  has(i, flag) { return (this.flags[i] & FLAG[flag]) !== 0; }
  slice(i) { return this.bytes.subarray(this.start[i], this.end[i]); }
  text(from, to) { return fromUtf8.decode(this.bytes.subarray(from, to)); }
  continues(i) { return this.end[i] > this.start[i] && (this.bytes[this.start[i]] & 0xc0) === 0x80; }
  groupEnd(i) { let j = i + 1; while (j < this.n && this.continues(j)) j++; return j; }
  groupStart(i) { while (i > 0 && this.continues(i)) i--; return i; }
  piece(i) { return this.names.pieces.get(this.ids[i]); }
  // Bytes the id stands for; they differ from the span's where a normalizer or a prefix was at work.
  idBytes(i) { return this.names.bytes.get(this.ids[i]) ?? null; }
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

// How many tokens at both ends look as they did before: same ids, flags and bytes.
const unchanged = (pane, changes) => {
  let head = pane.n, tail = pane.n, bytes = pane.bytes.length, last = bytes;
  for (const [name, , , first, rest] of changes) {
    if (name === 'bytes') { bytes = first; last = rest; }
    if (['ids', 'length', 'gap', 'flags'].includes(name)) { head = Math.min(head, first); tail = Math.min(tail, rest); }
  }
  while (head > 0 && pane.end[head - 1] > bytes) head--;
  const from = pane.bytes.length - last;
  while (tail > 0 && pane.start[pane.n - tail] < from) tail--;
  return { head, tail: Math.min(tail, pane.n - head) };
};
