// For views and disclosures that ask the server by themselves: the newest wish wins, one request at a time. Also what
// their panels share: inputs that outlive a redraw, a stepper, chips, and the stretch of text that is selected.

const WAIT_MS = 800;

class Asker {
  // body: () => what to send, null for nothing; arrived: (answer, busy, doing) => draws; answer is null while the first is
  // awaited, `doing` says what a slow one is at.
  constructor(bench, name, body, arrived) { Object.assign(this, { bench, name, body, arrived, answer: null, asked: '', busy: false }); }
  // Ask if what would be sent has changed.
  soon(ms) { clearTimeout(this.timer); this.timer = setTimeout(() => this.now(), ms); }
  async now(again) {
    clearTimeout(this.timer);
    const body = this.body();
    if (body === null) return;
    const key = JSON.stringify(body);
    if (key === this.asked && !again) return;
    this.asked = key;
    if (this.busy) { this.waits = true; return; }
    this.busy = true;
    this.arrived(this.answer, true, '');
    const text = await this.sent(body);
    this.busy = false;
    if (typeof text === 'string') this.answer = JSON.parse(text); else { this.asked = ''; this.bench.lost(true); }
    if (this.waits) { this.waits = false; this.now(true); return; }
    this.arrived(this.answer, false, '');
  }
  // The server's answer; whoever waits longer is told what is being fetched.
  async sent(body) {
    const mine = (this.turn = (this.turn || 0) + 1), began = performance.now();
    const slow = setTimeout(async () => {
      while (this.busy && mine === this.turn) {
        const text = await this.bench.server.fetching({ session: this.bench.session }), run = typeof text === 'string' ? JSON.parse(text) : {};
        if (!this.busy || mine !== this.turn) return;
        this.arrived(this.answer, true, doingText(run, (performance.now() - began) / 1000));
        await new Promise((done) => setTimeout(done, 1000));
      }
    }, WAIT_MS);
    try { return await this.bench.server[this.name]({ session: this.bench.session, ...body }); } finally { clearTimeout(slow); }
  }
}
const doingText = (run, seconds) => (run.ref ? t('fetching_ref', { ref: show(run.ref), mb: (run.done / 1e6).toFixed(1) + (run.total ? ' / ' + (run.total / 1e6).toFixed(1) : '') }) : t('computing')) + ' \u00b7 ' + Math.round(seconds) + ' s';

// What stands above an answer: that one is awaited, or why there is none. True when there is something to draw below.
const answerState = (host, answer, busy, doing) => {
  host.classList.toggle('ti-busy', Boolean(busy && answer));
  if (busy && answer && !doing) return false;  // what is drawn stays until the newer answer is there
  if (answer && !answer.error && !doing) return true;
  const line = busy ? statusLine(doing || t('computing')) : answer && answer.error ? alertLine(answer.error) : statusLine(t('computing'));
  if (answer && !answer.error && busy) { const old = host.querySelector(':scope > .ti-working'); if (old) old.textContent = line.textContent; else host.prepend(line); return false; }
  host.replaceChildren(line);
  return false;
};
const alertLine = (text) => { const node = el('p', 'ti-err', text); node.setAttribute('role', 'alert'); return node; };
const statusLine = (text) => { const node = el('p', 'ti-working ti-thin', text); node.setAttribute('role', 'status'); return node; };

// A panel that keeps its inputs: built once a language, put in place when its tab is drawn. `kept`: its inputs' values.
const keptPanel = (name, build) => (state, host, bench) => {
  bench.kept = bench.kept || {};
  let ui = bench.kept[name];
  if (!ui || ui.language !== language) { ui = bench.kept[name] = build(bench, ui ? ui.keep() : {}); ui.language = language; }
  if (host.firstChild !== ui.node || host.childNodes.length > 1) host.replaceChildren(ui.node);
  ui.refresh();
};
const labelled = (key, input, cls) => {
  const label = el('label', 'ti-ask ' + (cls || '')), name = el('span', 'ti-key', t(key));
  label.append(name, input);
  return label;
};
const textBox = (rows, name, value) => {
  const area = el('textarea'); area.rows = rows; area.spellcheck = false; area.dataset.in = name; area.value = value || '';
  return area;
};
const textLine = (name, value, hint) => {
  const input = el('input'); input.type = 'text'; input.spellcheck = false; input.autocomplete = 'off'; input.dataset.in = name; input.value = value || '';
  if (hint) input.placeholder = t(hint);
  return input;
};
// A text box turns every CR into LF: what the page itself put there is compared and sent as it was put.
const isAsPut = (area, put) => put !== null && area.value === put.replace(/\r\n?/g, '\n');
const exactText = (area, put) => (isAsPut(area, put) ? put : area.value);
const named = (node, key) => { node.setAttribute('aria-label', t(key)); node.title = t(key); return node; };
const tokenChip = (piece, id, cls, title) => {
  const cell = el('span', 'ti-seqtok ' + (cls || ''));
  cell.append(el('span', '', show(piece)), el('span', 'ti-seqid', String(id)));
  if (title) cell.title = title;
  return cell;
};
const pieceChip = (text, k, cls) => el('span', 'ti-pieceof k' + (k & 1) + ' ' + (cls || ''), show(text));
const spacedHex = (hexText) => (hexText.match(/../g) || []).join(' ');

// Draw without taking the focus away: nodes that may have it carry data-focus.
const keepFocus = (host, draw) => {
  const active = document.activeElement, key = host.contains(active) ? active.dataset.focus : undefined, caret = key && active.type === 'text' ? [active.selectionStart, active.selectionEnd] : null;
  draw();
  const node = key && Array.from(host.querySelectorAll('[data-focus]')).find((one) => one.dataset.focus === key);
  if (!node) return;
  node.focus({ preventScroll: true });
  if (caret) node.setSelectionRange(...caret);
};
const focusable = (node, key) => { node.dataset.focus = key; return node; };

// Slider, two buttons and play. act(k) is told every step; the arrows work anywhere in `scope` but in text fields.
const PLAY_MS = 450;
class Stepper {
  constructor(name, scope, act) {
    Object.assign(this, { at: 0, last: 0, act });
    this.node = el('div', 'ti-stepper');
    this.slider = el('input'); this.slider.type = 'range'; this.slider.min = 0; this.slider.dataset.in = name;
    const small = (text, key, press) => named(button('ti-btn', text, press), key);
    this.slider.setAttribute('aria-label', t('stepper_step'));
    this.playing = button('ti-btn', '', () => this.play()); this.count = el('span', 'ti-dim ti-count');
    this.node.append(small('\u25c2', 'stepper_back', () => this.to(this.at - 1)), this.slider, small('\u25b8', 'stepper_on', () => this.to(this.at + 1)), this.playing, this.count);
    this.slider.addEventListener('input', () => this.to(+this.slider.value));
    scope.addEventListener('keydown', (event) => this.key(event));
    this.stop();
  }
  key(event) {
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: this.last }[event.key], { target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (['TEXTAREA', 'SELECT'].includes(target.tagName) || ['text', 'number'].includes(target.type)) return;
    if (to === undefined && !(event.key === ' ' && target === this.slider)) return;
    event.preventDefault(); event.stopPropagation();
    if (to === undefined) this.play(); else { this.stop(); this.to(to); }
  }
  // The number of the last step; the place stays where it can.
  bound(last) { this.last = Math.max(0, last); this.slider.max = this.last; this.slider.disabled = this.last === 0; this.at = Math.min(this.at, this.last); this.mark(); }
  mark() { this.slider.value = this.at; this.slider.setAttribute('aria-valuetext', (this.at + 1) + ' / ' + (this.last + 1)); this.count.textContent = number(this.at + 1) + ' / ' + number(this.last + 1); }
  to(k) { this.at = Math.max(0, Math.min(this.last, k)); this.mark(); this.act(this.at); }
  play() {
    if (this.timer) { this.stop(); return; }
    if (this.at === this.last) this.to(0);
    this.timer = setInterval(() => { if (!this.node.isConnected || this.at >= this.last) { this.stop(); return; } this.to(this.at + 1); }, PLAY_MS);
    this.playing.textContent = t('stepper_pause');
  }
  stop() { clearInterval(this.timer); this.timer = 0; this.playing.textContent = t('stepper_play'); }
}

// ---- the selected stretch of text -----------------------------------------------------------------------------------
// [pane, from, to] in bytes: what is selected; of a lone token or a caret the content around it, or the line where the
// template wrote it; of nothing the first content. A caret is in no pane: the first one that shows its place has the text.
const SURROUNDINGS = 160, MOST_SELECTED = 2000;
const selectedBytes = (bench) => {
  const { link, pick } = bench, { own } = bench.state, q = link ? link.q ?? Math.max(0, link.panes.findIndex((part) => part.bytes.length)) : 0, pane = own.panes[q], parts = link && !bench.state.safeOn ? link.panes[q].bytes : [];
  if (!parts.length) return [q, ...firstContent(bench, pane)];
  const from = Math.min(...parts.map((part) => part[0])), to = Math.max(...parts.map((part) => part[1]));
  if (!isPoint(pick, pane, parts)) return [q, from, to];
  const content = contentAt(pane, from);
  if (content) return [q, ...content];
  const [a, b] = own.rows.span(q, own.rows.ofToken(q, pane.tokenAt(from)));
  return [q, Math.max(a, from - SURROUNDINGS), Math.min(Math.max(b, to), to + SURROUNDINGS)];
};
// A lone token, or what a caret stands for: one character of one field.
const isPoint = (pick, pane, parts) => {
  if (pick.kind === 'tokens') return pick.to - pick.from === 1;
  if (pick.kind !== 'fields' || pick.fields.length !== 1 || pick.fields[0].from === null) return false;
  return pick.fields[0].to - pick.fields[0].from === utf8Size(pane.bytes[parts[0][0]]);
};
const utf8Size = (first) => (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);
// The run of segments of one field around a byte; null where no field wrote it.
const contentAt = (pane, byte) => {
  const { path, start, end } = pane.segments, own = pane.segmentAt(byte);
  if (own < 0 || path[own] < 0 || end[own] <= byte) return null;
  let a = own, b = own;
  while (a > 0 && path[a - 1] === path[own]) a--;
  while (b + 1 < pane.numSegments && path[b + 1] === path[own]) b++;
  return [start[a], end[b]];
};
// The first message of the user, else of anybody, else the beginning.
const firstContent = (bench, pane) => {
  let first = null;
  for (let s = 0; s < pane.numSegments; s++) {
    const { kind, path } = pane.originOf(s), of = kind === 'message' && /^(messages\[\d+\])\.content/.exec(path);
    const place = of && contentAt(pane, pane.segments.start[s]);
    if (place && bench.textAt(of[1] + '.role') === 'user') return place;
    first = first || place;
  }
  return first || [0, Math.min(pane.bytes.length, 400)];
};
const selectedText = (bench) => {
  const [q, a, b] = selectedBytes(bench), { bytes } = bench.state.own.panes[q], inside = (at) => at > 0 && at < bytes.length && (bytes[at] & 0xc0) === 0x80;
  let from = a, to = b;
  while (inside(from)) from--;
  while (inside(to)) to++;
  const text = bytes.length ? fromUtf8.decode(bytes.subarray(from, to)) : firstTyped(bench);
  return Array.from(text).slice(0, MOST_SELECTED).join('');
};
// The user's first message as it was typed: a pane of ids alone has no text.
const firstTyped = (bench) => {
  for (let k = 0; k < 100; k++) { const role = bench.textAt('messages[' + k + '].role'); if (!role) break; if (role === 'user') return bench.textAt('messages[' + k + '].content'); }
  return bench.textAt('messages[0].content');
};

// Fixed sentences of the tokenizer tools, for `said`.
SENTENCES.push(
  [/^the configuration states no vocab_size$/, 'said_no_rows', []],
  [/^ids (\d+) to (\d+) have no embedding row: they cannot be fed to the model$/, 'said_outside', ['from', 'to']],
  [/^ids (\d+) to (\d+) are rows without a token: logits may rank them$/, 'said_dead_rows', ['from', 'to']],
  [/^resize_token_embeddings\(len\(tokenizer\), pad_to_multiple_of=64\) would shrink (\d+) rows to (\d+)$/, 'said_shrink', ['rows', 'to']],
  [/^the template ends a turn with ([^]*), generation stops only at ([^]*): it will run on past the turn$/, 'said_runs_on', ['end', 'stops']],
  [/^the tokenizer's EOS ([^]*) is not in generation_config\.eos_token_id$/, 'said_eos_unlisted', ['eos']],
  [/^generation_config names the id (\d+), which the tokenizer does not have$/, 'said_eos_unknown', ['id']],
  [/^encode rendered text with add_special_tokens=False, or BOS stands twice$/, 'said_bos_twice', []],
  [/^neither the template nor the tokenizer writes BOS$/, 'said_bos_missing', []],
  [/^the pre-tokenizer has Llama 3's pattern, Mistral's tekken vocabularies were trained with another: [^]*$/, 'said_wrong_pattern', []],
  [/^the library took another way here: its tokens are shown without steps$/, 'said_other_way', []],
  [/^the piece has ([\d,]+) (characters|bytes): steps are shown up to ([\d,]+)$/, 'said_long_piece', ['n', 'unit', 'most']],
  [/^a (\S+) model looks whole words up$/, 'said_whole_words', ['kind']],
  [/^each token is looked up as it stands$/, 'said_looked_up', []],
  [/^the whole piece is an entry: merges are ignored$/, 'said_whole_entry', []],
);
