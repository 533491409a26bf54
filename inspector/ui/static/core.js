// Small helpers: DOM through text nodes only, typed arrays from base64, visible forms of invisible characters.
// Nothing here knows of panes or views.

const el = (tag, cls, text) => {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  if (text !== undefined) node.textContent = text;
  return node;
};

const rawBytes = (base64) => {
  const text = atob(base64), out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
};
const u32 = (base64) => new Uint32Array(rawBytes(base64).buffer);
const i32 = (base64) => new Int32Array(rawBytes(base64).buffer);

// Run-length columns: value[k] holds from start[k] up to start[k + 1].
const expand = (runs, length, Kind) => {
  const out = new Kind(length);
  runs.start.forEach((start, k) => out.fill(runs.value[k], start, k + 1 < runs.start.length ? runs.start[k + 1] : length));
  return out;
};

// Largest index whose value is <= x; `values` ascending, values[0] <= x.
const lastAtMost = (values, x, count) => {
  let low = 0, high = count - 1;
  while (low < high) { const mid = (low + high + 1) >> 1; if (values[mid] <= x) low = mid; else high = mid - 1; }
  return low;
};

// What a pane is called.
const letter = (q) => String.fromCharCode(65 + q);

const utf8 = new TextEncoder(), fromUtf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join(' ');
const codePoint = (c) => c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');

// Characters that would be invisible, would change the order of their neighbours, or would pass for one of our marks.
const HIDDEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u00b7\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
const HIDDEN_OR_SPACE = new RegExp('[ ]|' + HIDDEN.source, 'gu');
const glyph = (c) => {
  const n = c.codePointAt(0);
  if (c === ' ') return '\u00b7';
  if (c === '\n') return '\u23ce';
  if (c === '\t') return '\u21e5';
  return '\u2039' + codePoint(c) + '\u203a';
};
// A combining mark at the start would attach itself to the neighbour: give it a ring to sit on.
const onRing = (text) => (/^\p{M}/u.test(text) ? '\u25cc' + text : text);
const show = (text) => onRing(text.replace(HIDDEN_OR_SPACE, glyph));
const showButSpaces = (text) => onRing(text.replace(HIDDEN, glyph));
const isPlain = (bytes, from, to) => {
  for (let i = from; i < to; i++) if (bytes[i] > 0x7e || bytes[i] < 0x20) return false;
  return true;
};

// Widths in columns of the monospace grid; a wide or odd glyph takes as many whole columns as it needs.
const measure = { context: document.createElement('canvas').getContext('2d'), column: 8, cache: new Map() };
const calibrate = (node) => {
  const style = getComputedStyle(node), font = style.fontSize + ' ' + style.fontFamily;
  if (measure.font === font) return;
  measure.font = measure.context.font = font;
  measure.column = measure.context.measureText('M'.repeat(100)).width / 100;
  measure.cache.clear();
};
const columns = (text) => {
  if (!/[^\x20-\x7e\u00b7]/.test(text)) return text.length;
  let width = measure.cache.get(text);
  if (width === undefined) {
    width = Math.max(1, Math.ceil(measure.context.measureText(text).width / measure.column - 0.05));
    if (measure.cache.size > 50000) measure.cache.clear();
    measure.cache.set(text, width);
  }
  return width;
};

let strings = {}, language = 'en';
const t = (key, values) => {
  const text = (strings[language] || {})[key] ?? key;
  return values ? text.replace(/\{(\w+)\}/g, (all, name) => (name in values ? String(values[name]) : all)) : text;
};
const number = (n) => n.toLocaleString(language === 'zh' ? 'zh-CN' : 'en-US');

// Fixed sentences that come from the server, in the page's language; anything else, and all that is quoted, stays as it is.
const SENTENCES = [
  [/^with it the input has (\d+) tokens, the limit is (\d+)$/, 'reason_too_long', ['n', 'limit']],
  [/^older than a message that does not fit$/, 'reason_older', []],
  [/^in the middle: a turn nearer to an end does not fit$/, 'reason_middle', []],
  [/^all its tokens lie in the part that (\w+) cuts$/, 'reason_cut', ['policy']],
  [/^the template refuses the conversation with it: ([^]*)$/, 'reason_refused', ['message']],
  [/^the template (\S+) was made for the tokenizer (\S+), this is (\S+)$/, 'said_pairing', ['template', 'made_for', 'tokenizer']],
  [/^use the tokenizer (\S+)$/, 'said_use_tokenizer', ['tokenizer']],
  [/^([^]*); the tokenizers differ: an id means another token on each side$/, 'said_other_tokenizer', ['rest*']],
  [/^same text, other ids; ([^]*)$/, 'said_same_ids', ['rest*']],
  [/^([A-Z]?[A-Za-z -]*): ([^]*) \(A (\d+) bytes in (\d+ tokens?), B (\d+) bytes in (\d+ tokens?)\)$/, 'said_why', ['title*', 'detail*', 'a', 'x*', 'b', 'y*']],
  [/^A writes ([^]*); B writes ([^]*)$/, 'said_both', ['a*', 'b*']],
  [/^([^]*); (A writes [^]*; B writes [^]*)$/, 'said_and', ['what*', 'both*']],
  [/^([AB]) goes on where the other ends: ([^]*)$/, 'said_goes_on', ['side', 'place*']],
  [/^([AB]) writes ([^]*), ([AB]) does not \(([^()]*)\)$/, 'said_only_one', ['side', 'text', 'other', 'place*']],
  [/^('[^]*'|"[^]*") \(([^()]*)\)$/, 'said_source', ['text', 'place*']],
  [/^([^,]*), template line (\d+)$/, 'said_line', ['what*', 'n']],
  [/^([^,]*), template lines ([\d, ]+)$/, 'said_lines', ['what*', 'n']],
  [/^(\d+) tokens?$/, 'said_tokens', ['n']],
  [/^the tokenizer has no BOS token$/, 'said_no_bos_token', []],
  [/^the tokenizer has no pad token$/, 'said_no_pad_token', []],
  [/^the prompt does not begin with BOS$/, 'said_not_begin_bos', []],
  [/^the template gives the same ids$/, 'said_same_render', []],
  [/^no message holds a control string: the ids are the same$/, 'said_no_control_string', []],
  [/^the template is not edited$/, 'said_not_edited', []],
  [/^the template reads no argument that turns reasoning on$/, 'said_no_thinking', []],
  [/^this backend takes no padded batches$/, 'said_no_padded', []],
  [/^the dtype of this backend is not ours to choose$/, 'said_own_dtype', []],
  [/^the server cuts this text another way from token (\d+) on, in tokens of the same vocabulary$/, 'said_other_cut', ['token']],
  [/^the server's tokenizer was not compared with this one: ([^]*)$/, 'said_uncompared', ['why']],
  [/^nothing$/, 'said_nothing', []],
  [/^template text$/, 'said_template_text', []],
  [/^special token (\S+)$/, 'said_special', ['name']],
  [/^the clock$/, 'kind_clock', []],
];
const said = (text) => {
  if (language === 'en') return text;
  for (const [pattern, key, names] of SENTENCES) {
    const found = pattern.exec(text);
    if (found) return t(key, Object.fromEntries(names.map((name, k) => (name.endsWith('*') ? [name.slice(0, -1), said(found[k + 1])] : [name, found[k + 1]]))));
  }
  const why = Object.keys(strings.en || {}).find((key) => key.startsWith('why_') && strings.en[key] === text);
  return why ? t(why) : text;
};

// Hand a text or Blob to the person as a file.
const saveFile = (name, content, type) => {
  const link = el('a'), url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.href = url; link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
};
