// Part of Bench: the facts of the selected token, one column a pane.

const MERGES_MS = 200;
const MOST_NAMED = 4;  // a few code points are shown with their names, more with their numbers

class Card {
  drawCard() {
    const card = this.$('.ti-card'), link = this.link || this.hoverLink;
    card.replaceChildren();
    const own = link && (this.link ? this.selected : this.firstToken(link));
    if (!own) { if (link || !VIEW_MODELS[this.view].panel) card.append(el('p', 'ti-dim', t(link ? 'nothing_linked' : 'card_hint'))); return; }
    const [q, i] = own, alone = this.pick && this.pick.kind !== 'tokens' ? link.panes[q].tokens : [[i, i + 1]];
    card.append(...link.panes.map(({ tokens }, p) => (p === q ? this.tokenCard(q, i, alone) : tokens.length ? this.tokenCard(p, tokens[0][0], tokens) : this.noCard(p))));
  }
  noCard(q) { const node = el('div', 'ti-about'); node.append(el('b', '', letter(q)), el('span', 'ti-dim', ' ' + t('no_counterpart'))); return node; }
  tokenCard(q, i, ranges) {
    const count = ranges.reduce((sum, [a, b]) => sum + b - a, 0), near = ranges.length === 1;
    const pane = this.state.panes[q], node = el('div', 'ti-about'), bytes = pane.slice(i), own = pane.idBytes(i);
    const put = (key, text, cls) => { const pair = el('span', 'ti-fact'); pair.append(el('span', 'ti-key', key), el('span', cls || '', text)); node.append(pair); };
    node.append(el('b', '', letter(q) + ' #' + i + (count > 1 ? (near ? '\u2013' + (ranges[0][1] - 1) : ' \u2026') : '')));
    if (count > 1) put('', t('count_tokens', { n: number(count) }));
    put(t('id'), String(pane.ids[i]) + (count > 1 ? ' \u2026' : ''), 'ti-strong');
    put(t('piece'), show(pane.piece(i)), 'ti-piece');
    put(t('bytes'), bytes.length ? hex(bytes.subarray(0, 48)) + (bytes.length > 48 ? ' \u2026 (' + bytes.length + ')' : '') : t('no_bytes'));
    if (own !== null && own !== hex(bytes)) put(t('id_bytes'), own || t('no_bytes'));
    put(t('code_points'), this.points(pane, i));
    if (count === 1) put(t('neighbours'), this.neighbours(pane, i));
    const merges = count === 1 && this.link ? this.mergesOf(pane, i) : '';
    if (merges) put(t('merges'), merges);
    put(t('span'), pane.start[i] + '\u2013' + pane.end[i]);
    const names = Object.keys(FLAG).filter((flag) => pane.has(i, flag));
    put(t('flags'), names.length ? names.map((flag) => t('flag_' + flag)).join(', ') : t('no_flags'), names.some((flag) => ['from_content', 'crosses_segment'].includes(flag)) ? 'ti-hot' : '');
    put(t('origin'), originText(pane.origin(i)));
    if (pane.heat) put(t('surprise_fact'), surpriseText(pane, i));
    return node;
  }
  neighbours(pane, i) {
    const one = (k) => (k >= 0 && k < pane.n ? show(pane.piece(k)) + ' ' + pane.ids[k] : '\u2013');
    return one(i - 1) + ' | ' + one(i + 1);
  }
  // How the token came to be and whether it would join its neighbours; asked for once a token, of the one that is selected.
  mergesOf(pane, i) {
    const id = (k) => (k >= 0 && k < pane.n ? pane.ids[k] : null), ids = [id(i - 1), id(i), id(i + 1)], { ref, digest } = pane.tokenizer || {}, key = digest + ' ' + ids.join(), known = this.mergesKnown.get(key);
    if (!ref) return '';
    if (known === undefined) { clearTimeout(this.mergesTimer); this.mergesTimer = setTimeout(() => this.askMerges(), MERGES_MS); this.mergesWanted = [...(this.mergesWanted || []), [key, ref, ids]].slice(-MOST_PANES); return ''; }
    if (!known || !known.bpe) return '';
    const rank = (value, where) => t(value === null ? 'merge_none_' + where : 'merge_' + where, { rank: number(value ?? 0) });
    return [known.made ? show(known.made.left) + ' + ' + show(known.made.right) + ' (' + t('merge_rank', { rank: number(known.made.rank) }) + ')' : t('merge_unmade'), rank(known.before, 'before'), rank(known.after, 'after')].join(' \u00b7 ');
  }
  async askMerges() {
    const wanted = this.mergesWanted || [];
    this.mergesWanted = [];
    if (this.mergesKnown.size > 2000) this.mergesKnown.clear();
    for (const [key, tokenizer, ids] of wanted) {
      if (this.mergesKnown.get(key) !== undefined) continue;
      this.mergesKnown.set(key, null);
      const text = await this.server.merges({ session: this.session, tokenizer, ids }), found = typeof text === 'string' ? JSON.parse(text) : null;
      this.mergesKnown.set(key, found && !found.error ? found : { bpe: false });
    }
    if (wanted.length && this.link) this.drawCard();
  }
  // The names of code points come from the server, once each; until then their numbers stand alone.
  async askNames(chars) {
    const unknown = chars.filter((c) => !this.names.has(c));
    if (!unknown.length) return;
    for (const c of unknown) this.names.set(c, null);
    const answer = await this.server.names({ session: this.session, text: unknown.join('') });
    if (typeof answer !== 'string') { for (const c of unknown) this.names.delete(c); return; }
    (JSON.parse(answer).names || []).forEach((name, k) => this.names.set(unknown[k], name));
    this.drawCard();
  }
  points(pane, i) {
    const from = pane.groupStart(i), to = pane.groupEnd(i), text = pane.text(pane.start[from], pane.end[to - 1]);
    const all = Array.from(text), few = all.slice(0, 12);
    if (few.length <= MOST_NAMED) this.askNames(few);
    const head = few.map((c) => (few.length <= MOST_NAMED && this.names.get(c)) || 'U+' + codePoint(c)).join(few.length <= MOST_NAMED ? ', ' : ' ') + (all.length > 12 ? ' \u2026' : '');
    return to - from > 1 ? t('part_of', { points: head, part: i - from + 1, of: to - from }) : head || t('no_bytes');
  }
}
