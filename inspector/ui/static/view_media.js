// The images of the request: who each is, what the model's processor makes of it, where it stands, and what does not go together.
// Its tab is there only where a pane has media. No picture is drawn: a fact that only looks right helps nobody.

const MEDIA_MODES = ['auto', 'written', 'expanded'];
const mediaOf = (state) => ((state.own && state.own.panes) || []).map((pane) => (pane && pane.media) || null);
const byWidth = (size) => size.join('\u00d7');
// What Python says of media, as [pattern, key, names].
SENTENCES.push(
  [/^a URL is no identity: .*$/, 'media_url', []],
  [/^a path is no identity: .*$/, 'media_path', []],
  [/^the part brings no bytes: .*$/, 'media_none', []],
  [/^its size, (.+), is what the part states$/, 'media_stated', ['size']],
  [/^no rule is known for this template: .*$/, 'media_no_rule_note', []],
  [/^without a size its positions are unknown: .*$/, 'media_no_size', []],
  [/^no rule here counts (.+)$/, 'media_not_counted', ['kind']],
  [/^(\d+) tokens an image, as typed$/, 'media_typed', ['n']],
  [/^declared as (.+), the bytes are (.+)$/, 'media_declared', ['declared', 'found']],
  [/^EXIF orientation (\d) is applied.*$/, 'media_turned', ['n']],
  [/^the first of (\d+) frames is taken$/, 'media_frames', ['n']],
  [/^the tokenizer lacks a token of this rule: .*$/, 'media_spelled', []],
  [/^(\d+) image parts?, (\d+) placeholders?: this part has none$/, 'media_unmatched', ['images', 'places']],
  [/^(\d+) image parts?, (\d+) placeholders?: the one at byte (\d+) has no image$/, 'media_empty', ['images', 'places', 'byte']],
  [/^the placeholder in its turn stands at byte (\d+), .*$/, 'media_order', ['byte']],
  [/^its text spells a placeholder: .*$/, 'media_forged', []],
  [/^the bytes are no image of a known format$/, 'media_unknown_format', []],
  [/^the image does not decode: (.+)$/, 'media_broken', ['why']],
);

const drawMedia = (state, host, bench) => {
  const top = host.scrollTop, columns = el('div', 'ti-columns');
  keepFocus(host, () => {
    host.replaceChildren(mediaControls(bench), columns);
    mediaOf(state).forEach((media, q) => columns.append(mediaColumn(bench, media, q)));
  });
  host.scrollTop = top;
};
// How images count is the form's: the budget and every tab follow.
const mediaControls = (bench) => {
  const bar = el('div', 'ti-askbar'), mode = bench.field('media').value;
  bar.append(el('span', 'ti-key', t('media')), choiceRow('media', MEDIA_MODES.map((name) => [name, t('media_' + name)]), mode, (name) => { setField(bench, 'media', name); bench.draw(true); }));
  const box = focusable(textLine('media_tokens', bench.field('image_tokens').value, 'image_tokens_hint'), 'image_tokens');
  box.inputMode = 'numeric';
  box.addEventListener('input', () => setField(bench, 'image_tokens', box.value));
  bar.append(labelled('image_tokens', box, 'ti-midask'));
  return bar;
};
const mediaColumn = (bench, media, q) => {
  const column = el('section'), title = paneTitle(bench, q);
  column.setAttribute('aria-label', letter(q) + ' ' + t('view_media'));
  column.append(el('h2', 'ti-h2', letter(q) + (title ? ' \u00b7 ' + showButSpaces(title) : '')));
  if (!media) { column.append(el('p', 'ti-dim', t('media_nothing'))); return column; }
  const { rule, expanded } = media.how, line = el('p');
  line.append(el('b', '', rule ? rule.title : t('media_no_rule')), ' \u00b7 ', t(expanded ? 'media_is_expanded' : 'media_is_written'));
  column.append(line, ...(rule ? [el('p', 'ti-dim', rule.encoder + ' \u00b7 ' + rule.projector)] : []), ...mediaProblems(bench, media, q), wide(mediaTable(bench, media, q)), ...media.items.map((item) => mediaSteps(item, rule)).filter(Boolean));
  return column;
};
const mediaProblems = (bench, { how, items }, q) => {
  const own = items.filter(({ error }) => error && error.kind !== 'MediaMismatch').map(({ path, error }) => ({ path, what: error.message, remedy: error.remedy }));
  if (!how.problems.length && !own.length) return [el('p', 'ti-good', '\u2713 ' + t('media_agrees', { n: how.written }))];
  const list = el('ul', 'ti-checks');
  [...how.problems, ...own].forEach(({ path, what, remedy }, k) => {
    const item = el('li', 'ti-hot');
    item.append('\u26a0 ', ...(path ? [focusable(placeLink(path, () => jumpToPath(bench, q, path, null)), 'media problem ' + q + ' ' + k), ' '] : []), said(what), ...(language === 'en' && remedy ? [el('span', 'ti-dim', ' \u2192 ' + remedy)] : []));
    list.append(item);
  });
  return [list];
};
const mediaTable = (bench, { items }, q) => {
  const node = table(letter(q) + ' \u00b7 ' + t('view_media'), ['media_part', 'media_identity', 'media_pixels', 'media_becomes', 'media_positions', 'col_tokens'].map((key) => t(key)), 'ti-media');
  items.forEach((item, k) => {
    const who = el('span'), { identity, decoding, plan } = item;
    if (identity) {
      const hash = el('code', '', identity.sha256.slice(0, 12) + '\u2026'); hash.title = 'SHA-256 ' + identity.sha256;
      who.append(identity.media_type + ' \u00b7 ' + t('media_bytes', { n: number(identity.bytes) }) + ' ', hash);
    } else who.append(el('span', 'ti-hot', t('media_unidentified', { source: t('media_source_' + item.source) })));
    const notes = el('span', 'ti-dim', item.notes.map(said).join('; ')), first = el('span');
    first.append(focusable(placeLink(item.path, () => jumpToPath(bench, q, item.path, null)), 'media part ' + q + ' ' + k), ' ', notes);
    const becomes = plan ? byWidth(plan.resized) + (plan.canvas ? ' \u2192 ' + byWidth(plan.canvas) : '') + ' \u00b7 ' + byWidth(plan.grid) + ' ' + t('media_grid_' + plan.grid_of.replaceAll(' ', '_')) : '\u2013';
    const count = el('span', '', item.memory !== null ? t('media_memory', { n: number(item.memory) }) : item.positions === null ? t('media_unknown') : number(item.positions));
    if (item.estimate && item.positions !== null) count.append(' ', el('b', 'ti-hot', t('media_estimate')));
    const at = item.tokens ? focusable(button('ti-link ti-at', item.tokens[0] + (item.tokens[1] - item.tokens[0] > 1 ? '\u2013' + (item.tokens[1] - 1) : ''), () => bench.go(q, ...item.tokens)), 'media tokens ' + q + ' ' + k) : el('span', 'ti-dim', t('media_not_there'));
    const row = rowOf([first, who, decoding ? byWidth(decoding.size) + (decoding.turned ? ' ' + t('media_was_turned') : '') : '\u2013', becomes, count, at], item.error ? 'ti-forged' : '');
    node.append(item.tokens ? hovering(row, bench, q, item.tokens[0], item.tokens[1]) : row);
  });
  return node;
};
// Everything that a replay needs besides the bytes.
const mediaSteps = ({ path, decoding, plan }, rule) => {
  if (!decoding && !plan) return null;
  const box = el('details', 'ti-box'), list = el('dl', 'ti-mediafacts'), fact = (key, text) => list.append(el('dt', '', t(key)), el('dd', '', text));
  box.append(el('summary', '', t('media_steps', { path: show(path) })), list);
  if (decoding) { fact('media_decoder', decoding.decoder); fact('media_errors', t('media_strict')); fact('media_colour', decoding.colour === 'kept' ? decoding.mode : decoding.colour); }
  if (plan) {
    fact('media_crops', plan.crops.slice(0, 64).map(({ name, of, box: at, size }) => name + ': ' + of + ' [' + at.join(', ') + '] \u2192 ' + byWidth(size)).join('\n'));
    fact('media_numbers', Object.entries(plan.numbers).map(([name, value]) => name + ' = ' + (Array.isArray(value) ? byWidth(value) : String(value))).join('\n'));
    const { resample, image_mean, image_std } = rule.settings;
    fact('media_normalised', resample + '; mean ' + image_mean.join(', ') + '; std ' + image_std.join(', '));
    fact('media_origin', rule.origin);
  }
  return box;
};

VIEW_MODELS.media = { panel: drawMedia, there: (state) => mediaOf(state).some(Boolean) };
