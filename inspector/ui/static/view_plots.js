// Plots of all panes, as SVG made of elements and text nodes: stacked bars, lines, grouped bars; each with its table, and
// exported as it is seen. Colours are written into the picture, so that an exported file needs no style sheet.

const SVG = 'http://www.w3.org/2000/svg', MOST_BARS = 60;
const svg = (tag, attributes, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== null));
  return node;
};
// Each origin and each pane has a colour and a texture: the colour alone is never the only cue.
const TEXTURES = {
  plain: '', slash: 'M-2 2L2 -2M0 8L8 0M6 10L10 6', back: 'M-2 6L2 10M0 0L8 8M6 -2L10 2', dots: 'M2 2h1.6v1.6h-1.6zM6 6h1.6v1.6h-1.6z', across: 'M0 2H8M0 6H8', down: 'M2 0V8M6 0V8', grid: 'M0 4H8M4 0V8', cross: 'M0 0L8 8M0 8L8 0',
  wave: 'M0 4L2 2L6 6L8 4', squares: 'M2 2h4v4h-4z', dash: 'M0 2H4M4 6H8',
};
const ORIGIN_LOOK = {
  message: ['--o-message', 'plain'], tool: ['--o-tool', 'slash'], document: ['--o-document', 'dots'], kwarg: ['--o-kwarg', 'across'], template: ['--o-template', 'back'], special: ['--o-special', 'cross'],
  clock: ['--o-clock', 'down'], derived: ['--o-derived', 'grid'], unknown: ['--o-unknown', 'wave'], inserted: ['--o-special', 'squares'], generation_prompt: ['--o-prompt', 'dash'],
};
const PANE_TEXTURE = ['plain', 'slash', 'dots', 'across', 'cross', 'down'], PANE_DASH = ['', '7 4', '2 3', '10 3 2 3', '4 2', '1 2'];
const paneLook = (q) => ['--pane' + (q % 6), PANE_TEXTURE[q % 6]];

class Picture {
  constructor(host, name, height) {
    const style = getComputedStyle(host), colour = (property) => style.getPropertyValue(property).trim();
    this.id = FLOW.uid + '-' + name; this.name = name; this.colour = colour; this.width = Math.max(300, Math.min(1200, host.width)); this.height = height;
    this.defs = svg('defs', {}); this.looks = new Map(); this.marks = [];
    this.left = 46; this.right = 8; this.top = 10; this.bottom = height - 34;
    this.node = svg('svg', { role: 'img', 'font-family': 'system-ui, sans-serif', 'font-size': 11, fill: colour('--ink') }, this.defs);
  }
  // The fill of a look, as a pattern of this picture.
  fill([property, texture]) {
    const key = property.slice(2) + '-' + texture, id = this.id + '-' + key;
    if (!this.looks.has(key)) {
      this.looks.set(key, id);
      this.defs.append(svg('pattern', { id, width: 8, height: 8, patternUnits: 'userSpaceOnUse' }, svg('rect', { width: 8, height: 8, fill: this.colour(property) }), svg('path', { d: TEXTURES[texture], stroke: this.colour('--ink'), 'stroke-width': 1, 'stroke-opacity': 0.55, fill: 'none' })));
    }
    return 'url(#' + id + ')';
  }
  text(x, y, words, more) { const node = svg('text', { x: x.toFixed(1), y: y.toFixed(1), ...more }); node.textContent = words; this.node.append(node); return node; }
  line(x1, y1, x2, y2, property, more) { this.node.append(svg('line', { x1, y1, x2, y2, stroke: this.colour(property), ...more })); }
  // A vertical axis from 0 to at least that value, with its name.
  axis(most, name, whole) {
    const raw = Math.max(most, whole ? 1 : 0.1) / 4, power = 10 ** Math.floor(Math.log10(raw)), step = Math.max(whole ? 1 : 0, [1, 2, 5, 10].find((n) => n * power >= raw) * power), top = Math.ceil(Math.max(most, step) / step - 1e-9) * step;
    const labels = Array.from({ length: Math.round(top / step) + 1 }, (_, k) => number(+(k * step).toFixed(2)));
    this.left = Math.max(46, 26 + 6.5 * Math.max(...labels.map((words) => words.length)));
    this.y = (value) => this.bottom - (value / top) * (this.bottom - this.top);
    labels.forEach((words, k) => {
      const y = this.y(k * step);
      this.line(this.left, y, this.width - this.right, y, '--line', {});
      this.text(this.left - 5, y + 4, words, { 'text-anchor': 'end' });
    });
    this.line(this.left, this.top, this.left, this.bottom, '--dim', {});
    this.line(this.left, this.bottom, this.width - this.right, this.bottom, '--dim', {});
    const middle = (this.top + this.bottom) / 2;
    this.text(11, middle, name, { 'text-anchor': 'middle', transform: 'rotate(-90 11 ' + middle + ')', fill: this.colour('--dim') });
  }
  // Names under the places of the horizontal axis; those that would touch their neighbour are left out.
  places(names, name) {
    const wide = (this.width - this.right - this.left) / Math.max(1, names.length), measured = (words) => [...words].reduce((sum, c) => sum + (c > '\u2e80' ? 11.5 : 6.4), 0);
    let free = this.left - 20;
    this.x = (k) => this.left + wide * k;
    this.wide = wide;
    names.forEach((words, k) => {
      const half = measured(words) / 2, x = Math.min(this.width - half, this.x(k + 0.5));
      if (x - half < free) return;
      free = x + half + 6;
      this.text(x, this.bottom + 14, words, { 'text-anchor': 'middle' });
    });
    this.text((this.left + this.width - this.right) / 2, this.bottom + 29, name, { 'text-anchor': 'middle', fill: this.colour('--dim') });
  }
  // Something that says its value when pointed at and that can be clicked.
  mark(node, words, act) {
    const title = svg('title', {});
    title.textContent = words;
    node.append(title); node.dataset.mark = this.marks.length;
    this.marks.push({ words, act });
    this.node.append(node);
  }
  bar(x, y, width, height, look, words, act) {
    this.mark(svg('rect', { x: x.toFixed(1), y: y.toFixed(1), width: Math.max(1, width).toFixed(1), height: Math.max(0, height).toFixed(1), fill: this.fill(look), stroke: this.colour('--dim'), 'stroke-width': 0.6 }), words, act);
  }
  legend(entries) {
    let x = this.left, y = this.height + 12;
    for (const { words, look, dash } of entries) {
      const size = 28 + [...words].reduce((sum, c) => sum + (c > '\u2e80' ? 11.5 : 6.2), 0) + 12;
      if (x + size > this.width && x > this.left) { x = this.left; y += 17; }
      if (dash === undefined) this.node.append(svg('rect', { x, y: y - 9, width: 20, height: 11, fill: this.fill(look), stroke: this.colour('--dim'), 'stroke-width': 0.6 }));
      else { this.node.append(svg('line', { x1: x, y1: y - 4, x2: x + 22, y2: y - 4, stroke: this.colour(look[0]), 'stroke-width': 2, 'stroke-dasharray': dash })); this.node.append(this.dot(x + 11, y - 4, look, 3)); }
      this.text(x + 27, y + 1, words, {});
      x += size;
    }
    this.height = y + 8;
  }
  // A point of a pane's line, in the pane's own shape.
  dot(x, y, look, r) {
    const shapes = ['M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0', 'M-1 -1h2v2h-2z', 'M0 -1.3L1.2 1H-1.2z', 'M0 -1.4L1.4 0L0 1.4L-1.4 0z', 'M-1.2 -1H1.2L0 1.3z', 'M-1.2 -.4h2.4v.8h-2.4z'];
    return svg('path', { d: shapes[PANE_TEXTURE.indexOf(look[1])], transform: 'translate(' + x.toFixed(1) + ' ' + y.toFixed(1) + ') scale(' + r + ')', fill: this.colour(look[0]), stroke: this.colour('--paper'), 'stroke-width': 0.2 });
  }
  done(words) {
    this.node.setAttribute('viewBox', '0 0 ' + this.width + ' ' + this.height);
    this.node.setAttribute('aria-label', words);
    return this.node;
  }
}

// ---- a figure: picture, what is pointed at, table, export --------------------------------------------------------------
const figureOf = (picture, title, hint, table) => {
  const node = el('figure', 'ti-plot'), caption = el('figcaption'), value = el('p', 'ti-value'), details = el('details'), name = picture.name;
  caption.append(el('b', '', title), button('ti-btn', 'SVG', () => saveFile(name + '.svg', exported(picture), 'image/svg+xml')), button('ti-btn', 'PNG', () => savePng(picture)));
  caption.querySelectorAll('button').forEach((each) => each.setAttribute('aria-label', t('plot_download', { title, format: each.textContent })));
  details.append(el('summary', '', t('plot_table')), table);
  node.append(caption, el('p', 'ti-dim', hint), picture.node, value, details);
  const markOf = (event) => { const mark = event.target.closest('[data-mark]'); return mark && picture.marks[+mark.dataset.mark]; };
  picture.node.addEventListener('mouseover', (event) => { const mark = markOf(event); value.textContent = mark ? mark.words : ''; });
  picture.node.addEventListener('mouseleave', () => { value.textContent = ''; });
  picture.node.addEventListener('click', (event) => { const mark = markOf(event); if (mark) mark.act(); });
  return node;
};
const exported = (picture) => {
  const copy = picture.node.cloneNode(true);
  copy.setAttribute('xmlns', SVG); copy.setAttribute('width', picture.width); copy.setAttribute('height', picture.height);
  copy.insertBefore(svg('rect', { width: picture.width, height: picture.height, fill: picture.colour('--paper') }), copy.firstChild);
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy);
};
const savePng = async (picture) => {
  const image = new Image(), canvas = document.createElement('canvas');
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(exported(picture));
  await image.decode();
  canvas.width = 2 * picture.width; canvas.height = 2 * picture.height;
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => saveFile(picture.name + '.png', blob, 'image/png'), 'image/png');
};
const plotTable = (heads, rows) => {
  const node = table('', heads);
  for (const [words, act, ...values] of rows.slice(0, 500)) node.append(rowOf([act ? button('ti-link', words, act) : words, ...values.map(String)]));
  return wide(node);
};

// ---- the four plots ------------------------------------------------------------------------------------------------------
const turnName = (turn) => (turn >= 0 ? 'messages[' + turn + ']' : t('turn_' + turnKey(turn)));
const turnPlace = (turn) => (turn >= 0 ? String(turn) : t('turn_short_' + turnKey(turn)));
const pickTurn = (bench, q, turn) => {
  const turns = turnsOf(bench.state.panes[q]), from = turns.indexOf(turn);
  if (turn === BEFORE) bench.choose({ kind: 'tokens', q, from, to: from + 1 }, true); else bench.pickPart(q, { [TOOLS]: 'tools[0]', [DOCUMENTS]: 'documents[0]' }[turn] ?? turnKey(turn));
};
// Neighbouring messages share a bar where there are too many for one each.
const binned = (bars) => {
  const size = Math.ceil(bars.length / MOST_BARS), out = [];
  if (size === 1) return bars.map((bar) => ({ ...bar, name: turnName(bar.turn), place: turnPlace(bar.turn) }));
  for (let at = 0; at < bars.length; at += size) {
    const part = bars.slice(at, at + size), by = {};
    for (const bar of part) for (const [kind, n] of Object.entries(bar.by)) by[kind] = (by[kind] || 0) + n;
    out.push({ turn: part[0].turn, n: part.reduce((sum, bar) => sum + bar.n, 0), by, name: turnName(part[0].turn) + ' \u2013 ' + turnName(part[part.length - 1].turn), place: turnPlace(part[0].turn) });
  }
  return out;
};
const plotTurns = (pane, q, bench, host) => {
  const picture = new Picture(host, 'tokens-per-message-' + letter(q).toLowerCase(), 176), all = stackOfTurns(pane), bars = binned(all), kinds = ORIGINS.filter((kind) => bars.some((bar) => bar.by[kind]));
  picture.axis(Math.max(...bars.map(({ n }) => n)), t('count_axis'), true);
  picture.places(bars.map(({ place }) => place), t('turn_axis'));
  bars.forEach((bar, k) => {
    let sum = 0;
    for (const kind of kinds) {
      const n = bar.by[kind] || 0;
      if (n) picture.bar(picture.x(k) + picture.wide * 0.12, picture.y(sum + n), picture.wide * 0.76, picture.y(sum) - picture.y(sum + n), ORIGIN_LOOK[kind], bar.name + ' \u00b7 ' + t('part_' + kind) + ': ' + t('count_tokens', { n: number(n) }) + ' / ' + number(bar.n), () => pickTurn(bench, q, bar.turn));
      sum += n;
    }
  });
  picture.legend(kinds.map((kind) => ({ words: t('part_' + kind), look: ORIGIN_LOOK[kind] })));
  picture.done(letter(q) + ': ' + t('plot_turns') + '. ' + bars.slice(0, 12).map((bar) => bar.name + ' ' + bar.n).join(', '));
  const rows = all.map((bar) => [turnName(bar.turn), () => pickTurn(bench, q, bar.turn), number(bar.n), ...kinds.map((kind) => number(bar.by[kind] || 0))]);
  return figureOf(picture, letter(q) + ' \u00b7 ' + t('plot_turns'), t('plot_turns_hint'), plotTable([t('turn_axis'), t('part_total'), ...kinds.map((kind) => t('part_' + kind))], rows));
};
const plotLength = (panes, bench, host) => {
  const picture = new Picture(host, 'length-over-turns', 176), lines = panes.map(lengthOverTurns), many = Math.max(...lines.map(({ length }) => length)) > MOST_BARS, turns = [...new Set(lines.flatMap((line) => line.map(({ turn }) => turn)))].sort((x, y) => turnRank(x) - turnRank(y));
  const limit = panes.map((pane) => pane.budget && pane.budget.max_input_tokens).find(Boolean), most = Math.max(...panes.map(({ n }) => n));
  picture.axis(limit && limit < 3 * most ? Math.max(most, limit) : most, t('cumulative_axis'), true);
  picture.places(turns.map(turnPlace), t('turn_axis'));
  if (limit && limit < 3 * most) { const y = picture.y(limit); picture.line(picture.left, y, picture.width - picture.right, y, '--bad', { 'stroke-width': 1.5, 'stroke-dasharray': '6 3' }); picture.text(picture.left + 4, y - 4, t('budget_max_input_tokens') + ' ' + number(limit), { fill: picture.colour('--bad') }); }
  lines.forEach((line, q) => {
    const look = paneLook(q), places = line.map(({ turn, tokens }) => [picture.x(turns.indexOf(turn) + 0.5), picture.y(tokens)]);
    picture.node.append(svg('polyline', { points: places.map(([x, y]) => x.toFixed(1) + ',' + y.toFixed(1)).join(' '), fill: 'none', stroke: picture.colour(look[0]), 'stroke-width': q ? 2 : 4.5, 'stroke-dasharray': PANE_DASH[q % 6] }));  // the first is broad, so that one over it hides nothing
    line.forEach(({ turn, tokens }, k) => picture.mark(many ? svg('circle', { cx: places[k][0].toFixed(1), cy: places[k][1].toFixed(1), r: 4, 'fill-opacity': 0 }) : picture.dot(...places[k], look, q ? 4 : 6), letter(q) + ' \u00b7 ' + turnName(turn) + ': ' + t('count_tokens', { n: number(tokens) }), () => pickTurn(bench, q, turn)));
  });
  picture.legend(panes.map((pane, q) => ({ words: letter(q) + ' \u00b7 ' + (pane.tokenizer ? pane.tokenizer.id : ''), look: paneLook(q), dash: PANE_DASH[q % 6] })));
  picture.done(t('plot_length') + '. ' + panes.map((pane, q) => letter(q) + ' ' + t('count_tokens', { n: number(pane.n) })).join(', '));
  const at = lines.map((line) => new Map(line.map(({ turn, tokens }) => [turn, tokens]))), rows = turns.map((turn) => [turnName(turn), () => pickTurn(bench, Math.max(0, at.findIndex((line) => line.has(turn))), turn), ...at.map((line) => (line.has(turn) ? number(line.get(turn)) : '\u2013'))]);
  return figureOf(picture, t('plot_length'), t('plot_length_hint'), plotTable([t('turn_axis'), ...panes.map((_, q) => letter(q))], rows));
};
// Bars of all panes side by side at each place: groups of [name, place, [value of each pane], say(q), act(q)].
const grouped = (picture, groups, panes) => groups.forEach(({ values, say, act }, k) => values.forEach((value, q) => {
  const wide = (picture.wide * 0.8) / panes.length, x = picture.x(k) + picture.wide * 0.1 + wide * q;
  if (value) picture.bar(x, picture.y(value), wide, picture.bottom - picture.y(value), paneLook(q), say(q), () => act(q));
}));
const paneLegend = (panes) => panes.map((pane, q) => ({ words: letter(q) + ' \u00b7 ' + (pane.tokenizer ? pane.tokenizer.id : ''), look: paneLook(q) }));
// The next token of this length after the selected one, so that clicking again goes on.
const pickLength = (bench, q, length) => {
  const pane = bench.state.panes[q], from = bench.selected && bench.selected[0] === q ? bench.selected[1] + 1 : 0, fits = (i) => Math.min(LONGEST_TOKEN, pane.end[i] - pane.start[i]) === length;
  for (let k = 0; k < pane.n; k++) { const i = (from + k) % pane.n; if (fits(i)) { bench.select(q, i, true); return; } }
};
const plotHistogram = (panes, bench, host) => {
  const picture = new Picture(host, 'token-lengths', 176), counts = panes.map(lengthHistogram), name = (length) => (length === LONGEST_TOKEN ? '\u2265' + LONGEST_TOKEN : String(length));
  const groups = counts[0].map((_, length) => ({ length, values: counts.map((each) => each[length]), say: (q) => letter(q) + ' \u00b7 ' + t('length_bytes', { n: name(length) }) + ': ' + t('count_tokens', { n: number(counts[q][length]) }), act: (q) => pickLength(bench, q, length) }));
  picture.axis(Math.max(...counts.flat()), t('count_axis'), true);
  picture.places(groups.map(({ length }) => name(length)), t('length_axis'));
  grouped(picture, groups, panes);
  picture.legend(paneLegend(panes));
  picture.done(t('plot_lengths') + '. ' + panes.map((pane, q) => letter(q) + ' ' + t('mean_bytes', { n: (pane.n ? (pane.end.reduce((sum, end, i) => sum + end - pane.start[i], 0) / pane.n) : 0).toFixed(2) })).join(', '));
  const rows = groups.filter(({ values }) => values.some(Boolean)).map(({ length, values }) => [name(length), () => pickLength(bench, Math.max(0, values.findIndex(Boolean)), length), ...values.map(number)]);
  return figureOf(picture, t('plot_lengths'), t('plot_lengths_hint'), plotTable([t('length_axis'), ...panes.map((_, q) => letter(q))], rows));
};
const plotScripts = (panes, bench, host) => {
  const picture = new Picture(host, 'bytes-per-token', 176), costs = panes.map(scriptCosts), names = SCRIPTS.map(([name]) => name).filter((name) => costs.some((rows) => rows.some((row) => row.name === name)));
  const of = (q, name) => costs[q].find((row) => row.name === name), rate = (row) => (row ? row.bytes / row.tokens : 0), pick = (q, name) => { const row = of(q, name); if (row) bench.choose({ kind: 'bytes', q, from: row.first, to: row.first + 1 }, true); };
  const groups = names.map((name) => ({ name, values: panes.map((_, q) => rate(of(q, name))), act: (q) => pick(q, name), say: (q) => { const row = of(q, name); return letter(q) + ' \u00b7 ' + t('script_' + name) + ': ' + t('script_value', { rate: rate(row).toFixed(2), bytes: number(row.bytes), tokens: number(+row.tokens.toFixed(1)) }); } }));
  picture.axis(Math.max(0, ...groups.flatMap(({ values }) => values)), t('rate_axis'), false);
  picture.places(names.map((name) => t('script_' + name)), t('script_axis'));
  grouped(picture, groups, panes);
  picture.legend(paneLegend(panes));
  picture.done(t('plot_scripts') + '. ' + groups.map(({ name, values }) => t('script_' + name) + ' ' + values.map((value, q) => letter(q) + ' ' + value.toFixed(2)).join(' ')).join(', '));
  const rows = groups.map(({ name, values }) => [t('script_' + name), () => pick(Math.max(0, values.findIndex(Boolean)), name), ...values.map((value, q) => (value ? t('script_value', { rate: value.toFixed(2), bytes: number(of(q, name).bytes), tokens: number(+of(q, name).tokens.toFixed(1)) }) : '\u2013'))]);
  return figureOf(picture, t('plot_scripts'), t('plot_scripts_hint'), plotTable([t('script_axis'), ...panes.map((_, q) => letter(q))], rows));
};

const drawPlots = (state, host, bench) => {
  const { panes } = state.own, top = host.scrollTop, box = el('div', 'ti-plots'), open = new Set([...host.querySelectorAll('.ti-plot details[open]')].map((node) => node.parentNode.dataset.plot));
  const shown = panes.map((pane, q) => [pane, q]).filter(([pane]) => pane.n);
  if (!shown.length) { host.replaceChildren(el('p', 'ti-note', t('plots_none'))); return; }
  host.width = (host.clientWidth - 24 - (host.clientWidth > 930 ? 12 : 0)) / (host.clientWidth > 930 ? 2 : 1) - 22;
  const full = panes.every((pane) => pane.n) ? panes : [];
  box.append(...shown.map(([pane, q]) => plotTurns(pane, q, bench, host)), ...(full.length ? [plotScripts, plotLength, plotHistogram].map((plot) => plot(full, bench, host)) : []));
  [...box.children].forEach((figure, k) => { figure.dataset.plot = k; figure.querySelector('details').open = open.has(String(k)); if (k < shown.length) figure.classList.add('ti-plot' + shown[k][1]); });
  host.replaceChildren(box);
  host.scrollTop = top;
};

VIEW_MODELS.plots = { panel: drawPlots };
