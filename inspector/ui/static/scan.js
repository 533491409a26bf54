// Places in JSON and JSON5 text, and edits of it that leave all other bytes as they are. Pure functions, no DOM.
//   scan: {text, nodes, byKey}; node: {steps, kind: 'string' | 'number' | 'object' | 'array' | 'word', keyFrom, keyTo, from, to,
//   items: [node]}      positions in UTF-16 units; nodes in document order
//   edit: {from, to, text}: what to put in place of [from, to)

const BLANK = /(?:[\s\ufeff]+|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)*/y;
const NUMBER = /[+-]?(?:0[xX][\da-fA-F]+|(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$.])/y;
const WORD = /(?:true|false|null)(?![\w$])/y;
const NAME = /[\p{L}_$][\p{L}\p{N}\p{M}_$\u200c\u200d]*/uy;
const MOST_DEPTH = 200;
const stick = (pattern, text, at) => { pattern.lastIndex = at; const found = pattern.exec(text); return found ? pattern.lastIndex : -1; };

// The end of a string that begins at `at`, or -1. The searches are remembered, so that many strings cost one pass.
const stringEnds = (text) => {
  const next = { '"': -1, "'": -1, '\\': -1, '\n': -1 };
  const find = (mark, from) => { if (next[mark] < from) { const found = text.indexOf(mark, from); next[mark] = found < 0 ? Infinity : found; } return next[mark]; };
  return (at) => {
    const quote = text[at];
    for (let i = at + 1;;) {
      const end = find(quote, i), back = find('\\', i);
      if (find('\n', i) < Math.min(end, back) || Math.min(end, back) === Infinity) return -1;
      if (end < back) return end + 1;
      const letter = text[back + 1];
      if (/[1-9]/.test(letter) || (letter === '0' && /\d/.test(text[back + 2] || '')) || (letter === 'x' && !/^[\da-fA-F]{2}$/.test(text.slice(back + 2, back + 4))) || (letter === 'u' && !/^[\da-fA-F]{4}$/.test(text.slice(back + 2, back + 6)))) return -1;
      i = back + 2;
    }
  };
};

// Every value of a text with its place; null when it is neither JSON nor JSON5.
const scanJson = (text, root) => {
  const nodes = [], stringEnd = stringEnds(text);
  let at = 0, depth = 0;
  const blank = () => {
    let c = text.charCodeAt(at);
    while (c === 32 || c === 10 || c === 13 || c === 9) c = text.charCodeAt(++at);
    if (c === 47 || c > 126 || c < 32) at = stick(BLANK, text, at);  // a comment, or a blank that only JSON5 has
  };
  const fail = () => { throw new SyntaxError('at ' + at); };
  const to = (end) => { if (end < 0) fail(); at = end; };
  const list = (node, close, one) => {
    if (++depth > MOST_DEPTH) fail();
    for (at++, blank(); text[at] !== close; blank()) { one(); blank(); if (text[at] === ',') at++; else if (text[at] !== close) fail(); }
    at++; depth--;
  };
  const value = (steps, keyFrom, keyTo) => {
    const node = { steps, kind: 'word', keyFrom, keyTo, from: at, to: at, items: [] }, c = text[at];
    nodes.push(node);
    if (c === undefined) fail();
    if (c === '"' || c === "'") { node.kind = 'string'; to(stringEnd(at)); }
    else if (c === '{') {
      node.kind = 'object';
      list(node, '}', () => {
        const from = at;
        to(text[at] === '"' || text[at] === "'" ? stringEnd(at) : stick(NAME, text, at));
        const end = at, key = keyText(text.slice(from, end));
        blank();
        if (text[at] !== ':') fail();
        at++; blank();
        node.items.push(value([...steps, key], from, end));
      });
    } else if (c === '[') { node.kind = 'array'; list(node, ']', () => node.items.push(value([...steps, node.items.length], -1, -1))); }
    else if ('tfn'.includes(c)) to(stick(WORD, text, at));
    else { node.kind = 'number'; to(stick(NUMBER, text, at)); }
    node.to = at;
    return node;
  };
  try { blank(); value(root, -1, -1); blank(); if (at < text.length) fail(); } catch (error) { return null; }
  let keys = null;
  return { text, nodes, get byKey() { return (keys = keys || new Map(nodes.map((node) => [keyOf(node.steps), node]))); } };
};

// ---- strings --------------------------------------------------------------------------------------------------------
const LETTERS = { n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v', 0: '\0' };
// The unit at a position of a string's source: [its UTF-16 code, or -1 for a line that goes on, position after it].
const unitAt = (text, at) => {
  if (text[at] !== '\\') return [text.charCodeAt(at), at + 1];
  const letter = text[at + 1];
  if (letter === 'u') return [parseInt(text.slice(at + 2, at + 6), 16), at + 6];
  if (letter === 'x') return [parseInt(text.slice(at + 2, at + 4), 16), at + 4];
  if (/[\n\r\u2028\u2029]/.test(letter)) return [-1, at + (letter === '\r' && text[at + 2] === '\n' ? 3 : 2)];
  return [(LETTERS[letter] || letter).charCodeAt(0), at + 2];
};
const unquote = (source) => {
  if (!source.includes('\\')) return source.slice(1, -1);
  const codes = [];
  for (let at = 1, unit; at < source.length - 1;) { [unit, at] = unitAt(source, at); if (unit >= 0) codes.push(String.fromCharCode(unit)); }
  return codes.join('');
};
const keyText = (source) => (source[0] === '"' || source[0] === "'" ? unquote(source) : source);
const quoted = (value, quote = '"') => {
  const inside = JSON.stringify(value).slice(1, -1);
  return quote === '"' ? inside : inside.replace(/\\"/g, '"').replace(/'/g, "\\'");
};
const textOf = (scan, node) => unquote(scan.text.slice(node.from, node.to));
// A string as a text field shows it (line ends are \n there), and where each of its units stands in the source.
const shownString = (scan, node) => {
  const { text } = scan, source = text.slice(node.from + 1, node.to - 1);
  if (!/[\\\r]/.test(source)) return { shown: source, place: (i) => node.from + 1 + i };
  const places = [], shown = [];
  for (let at = node.from + 1; at < node.to - 1;) {
    const [unit, next] = unitAt(text, at);
    if (unit >= 0 && !(unit === 10 && shown.length && shown[shown.length - 1] === '\r\u0000')) { places.push(at); shown.push(unit === 13 ? '\r\u0000' : String.fromCharCode(unit)); }
    else if (unit === 10) shown[shown.length - 1] = '\n';
    at = next;
  }
  places.push(node.to - 1);
  return { shown: shown.map((unit) => (unit === '\r\u0000' ? '\n' : unit)).join(''), place: (i) => places[i] };
};
// A value's source as a field shows it: without the indentation that all its further lines share, if they do.
const shownSource = (scan, node) => {
  const source = scan.text.slice(node.from, node.to), indent = lineIndent(scan.text, startOf(node));
  return source.includes('\\\n') || !source.split('\n').slice(1).every((line) => line.startsWith(indent)) ? { shown: source, indent: '' } : { shown: source.replaceAll('\n' + indent, '\n'), indent };
};
// How far two texts agree from the start and from the end, whole characters only.
const agreeing = (before, after) => {
  const most = Math.min(before.length, after.length);
  let head = 0, tail = 0;
  while (head < most && before.charCodeAt(head) === after.charCodeAt(head)) head++;
  if (head && /[\ud800-\udbff]/.test(before[head - 1])) head--;
  while (tail < most - head && before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)) tail++;
  if (tail && /[\udc00-\udfff]/.test(before[before.length - tail])) tail--;
  return [head, tail];
};
// The edit that makes a string say `value`: only what differs is written anew.
const editString = (scan, node, value) => {
  const { shown, place } = shownString(scan, node), [head, tail] = agreeing(shown, value), quote = scan.text[node.from];
  const edit = { from: place(head), to: place(shown.length - tail), text: quoted(value.slice(head, value.length - tail), quote) };
  if (!/\\[ru]/.test(scan.text.slice(node.from, node.to))) return edit;
  // A carriage return that comes to stand before a line feed would be one line end with it: then all is written anew.
  const made = scan.text.slice(node.from, edit.from) + edit.text + scan.text.slice(edit.to, node.to);
  return unquote(made).replace(/\r\n?/g, '\n') === value ? edit : { from: node.from + 1, to: node.to - 1, text: quoted(value, quote) };
};

// ---- structure ------------------------------------------------------------------------------------------------------
const applied = (text, edit) => text.slice(0, edit.from) + edit.text + text.slice(edit.to);
const lineIndent = (text, at) => /^[ \t]*/.exec(text.slice(text.lastIndexOf('\n', at - 1) + 1, at))[0];
// One step of a text's indentation; '' for a text on one line.
const unitOf = (text) => { const found = /[[{]\s*?\n([ \t]+)/.exec(text); return found ? found[1] : /\n/.test(text.trim()) ? '  ' : ''; };
// A value as source that fits where its line begins with `indent`; on one line where `unit` is ''.
const sourceFor = (value, unit, indent) => {
  const text = JSON.stringify(value, null, unit || 1);  // printed strings hold no raw line end: every one is the printer's
  return unit ? text.replace(/\n/g, '\n' + indent) : text.replace(/([[{])\n\s*/g, '$1').replace(/\n\s*(?=[\]}])/g, '').replace(/\n\s*/g, ' ');
};
const startOf = (node) => (node.keyFrom >= 0 ? node.keyFrom : node.from);
const between = (text, a, b) => { const gap = text.slice(a.to, startOf(b)); return /^\s*,\s*$/.test(gap) ? gap.slice(gap.indexOf(',') + 1) : null; };
// Put `make(indent, unit)`, the source of a member or an element, at `index` of a container.
const insertItem = (scan, node, index, make) => {
  const { text } = scan, { items } = node, unit = unitOf(text);
  if (!items.length) {
    const indent = lineIndent(text, node.from), inside = text.slice(node.from + 1, node.to - 1), lines = unit && '\n' + indent;
    if (/\S/.test(inside)) return { from: node.to - 1, to: node.to - 1, text: '\n' + indent + unit + make(indent + unit, unit) + '\n' + indent };  // a comment stays
    return { from: node.from + 1, to: node.to - 1, text: lines && lines + unit + make(indent + unit, unit) + lines || make('', '') };
  }
  const [first] = items, lead = text.slice(node.from + 1, startOf(first)), inLines = lead.includes('\n'), indent = lineIndent(text, startOf(first));
  const gap = (items.length > 1 ? between(text, first, items[1]) : null) ?? (inLines ? '\n' + indent : ' '), source = make(indent, inLines ? unit : '');
  if (index < items.length) { const at = startOf(items[index]); return { from: at, to: at, text: source + ',' + gap }; }
  const last = items[items.length - 1];
  return { from: last.to, to: last.to, text: ',' + gap + source };
};
const removeItem = (scan, node, index) => {
  const { text } = scan, { items } = node, item = items[index];
  if (items.length === 1) {
    const rest = stick(BLANK, text, item.to), end = text[rest] === ',' ? rest + 1 : item.to, all = text.slice(node.from + 1, startOf(item)) + text.slice(end, node.to - 1);
    return /\S/.test(all) ? { from: startOf(item), to: end, text: '' } : { from: node.from + 1, to: node.to - 1, text: '' };
  }
  if (index < items.length - 1) return { from: startOf(item), to: startOf(items[index + 1]), text: '' };
  return { from: items[index - 1].to, to: item.to, text: '' };
};
// Two neighbours change places; what stands between them stays.
const swapItems = (scan, node, index) => {
  const { text } = scan, [a, b] = [node.items[index], node.items[index + 1]];
  return { from: startOf(a), to: b.to, text: text.slice(startOf(b), b.to) + text.slice(a.to, startOf(b)) + text.slice(startOf(a), a.to) };
};
const memberOf = (node, key) => node.items.find((item) => item.steps[item.steps.length - 1] === key);

// ---- the whole text -------------------------------------------------------------------------------------------------
const PIECE = /(?<blank>[\s\ufeff]+)|(?<line>\/\/[^\n\r\u2028\u2029]*)|(?<block>\/\*[^]*?\*\/)|(?<mark>[[\]{},:])|(?<atom>[^\s\ufeff"'[\]{},:/]+)/y;
const pieces = (text) => {
  const found = [], stringEnd = stringEnds(text);
  for (let at = 0; at < text.length;) {
    if (text[at] === '"' || text[at] === "'") { const end = stringEnd(at); found.push(['atom', text.slice(at, end)]); at = end; continue; }
    PIECE.lastIndex = at;
    const { groups } = PIECE.exec(text), kind = Object.keys(groups).find((name) => groups[name] !== undefined);
    found.push([kind, groups[kind]]);
    at = PIECE.lastIndex;
  }
  return found;
};
// The text laid out anew, every value as spelled; `unit` '' leaves out blanks, comments and needless commas. The text must
// be one that scanJson takes.
const laidOut = (text, unit) => {
  const solid = pieces(text).filter(([kind]) => unit || !['blank', 'line', 'block'].includes(kind)), out = [];
  let depth = 0, line = false, space = false;
  const put = (part) => { if (out.length) { if (line) out.push('\n' + unit.repeat(depth)); else if (space) out.push(' '); } out.push(part); line = space = false; };
  const following = (k) => { while (k < solid.length && solid[k][0] === 'blank') k++; return solid[k]; };
  for (let k = 0; k < solid.length; k++) {
    const [kind, part] = solid[k];
    if (kind === 'blank') { if (unit && /\n/.test(part) && ['line', 'block'].includes((solid[k + 1] || [])[0]) && out.length) line = true; continue; }
    if (kind === 'line' || kind === 'block') { if (!line) space = true; put(part); if (kind === 'line') line = true; else space = true; continue; }
    if (part === ',' && !unit && [']', '}'].includes((solid[k + 1] || [])[1])) continue;
    if (part === ']' || part === '}') { depth--; line = Boolean(unit); if (out[out.length - 1] === (part === ']' ? '[' : '{')) line = false; put(part); continue; }
    if (part === ',' || part === ':') { space = false; if (!(line && unit && out[out.length - 1].startsWith('//'))) line = false; put(part); if (part === ',') { const next = following(k + 1), own = solid[k + 1] && solid[k + 1][0] === 'blank' && /\n/.test(solid[k + 1][1]); line = Boolean(unit) && !(next && ['line', 'block'].includes(next[0]) && !own); } else space = Boolean(unit); continue; }
    put(part);
    if (part === '[' || part === '{') { depth++; line = Boolean(unit); }
  }
  return out.join('');
};
