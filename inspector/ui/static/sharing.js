// Part of Bench: sharing beyond the link that holds everything - a state that the server keeps for a while because it is too
// long for a link, short links that only name a model and a template, and the page as a frame in another one.
// Nothing is stored on the server before its terms stood in the dialog and the button was pressed.

const CHOICES = ['model', 'revision', 'template'], MOST_KEYS = 100;

// The page's address without what a short link names, and without what only a frame has.
const bareAddress = (whole) => {
  const asked = new URLSearchParams(location.search);
  for (const name of whole ? [...CHOICES, 'embed'] : CHOICES) asked.delete(name);
  const rest = asked.toString();
  return location.pathname + (rest ? '?' + rest : '');
};
const hasChoices = () => { const asked = new URLSearchParams(location.search); return Boolean(asked.get('model') || asked.get('template')); };

// What a short link chooses, as inputs of the page: a preset, ORG/NAME of the Hub or any other reference. The revision is the
// Hub model's, else the template's. Pane B shows another revision of the same template, where there is one.
const shortInputs = (asked, presets, otherwise) => {
  const given = (name) => (asked.get(name) || '').trim().slice(0, 300), model = given('model'), revision = given('revision'), template = given('template');
  if (!model && !template) return null;
  const hub = !presets.tokenizers.some(({ id }) => id === model) && /^(hf:)?[\w.-]+\/[\w.-]+$/.test(model), at = revision ? '@' + revision : '';
  const tokenizer = hub ? 'hf:' + model.replace(/^hf:/, '') + at : model || otherwise;
  const first = template && !hub && !template.includes('@') ? template + at : template, stem = template.split('@')[0] + '@';
  const refs = presets.templates.map(({ ref }) => ref), revisions = refs.filter((ref) => ref.startsWith(stem)), shown = refs.includes(first) || !revisions.length ? first : at ? first : revisions[0];
  return { panes: '2', tokenizer0: tokenizer, tokenizer1: tokenizer, template0: shown, template1: revisions.find((ref) => ref !== shown) || shown };
};

class Sharing {
  // ---- kept on the server -----------------------------------------------------------------------------------------
  keys() { try { const list = JSON.parse(stored('localStorage', 'shares')); return Array.isArray(list) ? list : []; } catch (error) { return []; } }
  async asked(name, request) {
    const text = await this.server[name]({ session: this.session, ...request });
    return typeof text === 'string' ? JSON.parse(text) : { error: t('lost') };
  }
  async keepState() {
    const said = this.$('.ti-keep-said'), state = JSON.stringify(this.shared.state);
    said.textContent = t('computing');
    const answer = await this.asked('share_keep', { state });
    said.textContent = answer.error || '';
    if (answer.error) return;
    const { id, key, until } = answer, now = Date.now();
    keep('localStorage', 'shares', JSON.stringify([{ id, key, until }, ...this.keys().filter((each) => each.until > now)].slice(0, MOST_KEYS)));
    this.shared.kept = { id, key, until };
    this.visit(this.shared.state, '#share=' + id);
    this.linked = this.inputs();
    this.showLink(location.origin + bareAddress(true) + '#share=' + id);
    this.copyLink();
  }
  async dropState() {
    const { id, key } = this.shared.kept, answer = await this.asked('share_drop', { id, key });
    if (answer.error && answer.kind !== 'ArtifactUnavailable') { this.$('.ti-kept-text').textContent = answer.error; return; }
    keep('localStorage', 'shares', JSON.stringify(this.keys().filter((each) => each.id !== id)));
    this.shared.kept = null;
    if (location.hash === '#share=' + id) { this.linked = null; history.replaceState(history.state, '', bareAddress()); }
    if (this.shared.long) { this.shared.link = null; this.showLink(null); } else this.showKept();
    this.$('.ti-share .ti-copied').textContent = t('share_dropped');
  }
  async keptState(id) {
    const answer = await this.asked('share_open', { id });
    if (!answer.error) return answer.state;
    throw Object.assign(new Unreadable('state_gone'), { said: answer.kind === 'ArtifactUnavailable' ? null : answer.error });
  }

  // ---- the dialog -------------------------------------------------------------------------------------------------
  // What share() found: a link, or none because the state is too long for one.
  showLink(link) {
    this.shared.link = link;
    this.$('.ti-share .ti-link-text').value = link || '';
    this.$('.ti-share .ti-linkrow').hidden = !link;
    const { days, limit } = this.config.shares, size = JSON.stringify(this.shared.state).length, box = this.$('.ti-keep');
    box.hidden = Boolean(link) || size > limit;
    this.$('.ti-keep-hint').textContent = t('share_keep_hint', { days: number(days), n: number(size) });
    this.$('.ti-keep-said').textContent = '';
    this.$('.ti-share-uploads').hidden = !this.read().panes.some(({ tokenizer, template }) => /^upload:/.test(tokenizer) || /^upload:/.test(template));
    this.showKept();
    this.$('.ti-short-text').value = this.shortLink() || t('share_short_none');
    this.$('.ti-embed-text').value = link ? this.embedCode(link) : t('share_embed_none');
    for (const [name, there] of [['copy-short', this.shortLink()], ['copy-embed', link]]) this.$('[data-act="' + name + '"]').disabled = !there;
  }
  showKept() {
    const { kept } = this.shared;
    this.$('.ti-kept').hidden = !kept;
    if (kept) this.$('.ti-kept-text').textContent = t('share_kept', { date: new Date(kept.until).toLocaleDateString(language === 'zh' ? 'zh-CN' : 'en-US', { dateStyle: 'long' }) });
  }
  // The choices of the first pane as a link that names them; null where they are more than names.
  shortLink() {
    const [{ tokenizer, template, template_text, template_name }] = this.read().panes;
    if (!tokenizer || template_text !== null || template_name || /^(upload|folder):/.test(tokenizer + template)) return null;
    const asked = new URLSearchParams({ model: tokenizer, ...(template ? { template } : {}) });
    return location.origin + location.pathname + '?' + asked.toString();
  }
  embedCode(link) {
    const [address, fragment] = link.split('#'), framed = address + (address.includes('?') ? '&' : '?') + 'embed=1#' + fragment;
    const safe = framed.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
    return '<iframe src="' + safe + '" title="' + t('title') + '" width="100%" height="640" loading="lazy" style="border: 1px solid #ccc"></iframe>';
  }
  async copyFrom(selector) {
    const said = this.$('.ti-share .ti-more-said');
    try { await navigator.clipboard.writeText(this.$(selector).value); said.textContent = t('copied'); } catch (error) { said.textContent = t('copy_failed'); }
  }

  // ---- short links, and the page in a frame ---------------------------------------------------------------------------
  openShort() {
    const inputs = shortInputs(new URLSearchParams(location.search), this.config.presets, this.initial.tokenizer0);
    if (!inputs) return false;
    this.apply(cleanState({ schema: STATE_SCHEMA, inputs }, this.known()));
    this.linked = this.inputs();
    this.remember();
    return true;
  }
  async openWhole() {
    let fragment = '';
    try { fragment = '#state=' + await packed(JSON.stringify(this.pinned())); } catch (error) { /* without the state */ }
    window.open(location.origin + bareAddress(true) + fragment, '_blank', 'noopener');
  }
  listenSharing() {
    this.root.classList.toggle('embed', new URLSearchParams(location.search).get('embed') === '1');
    const acts = { 'keep-state': () => this.keepState(), 'drop-state': () => this.dropState(), 'copy-short': () => this.copyFrom('.ti-short-text'), 'copy-embed': () => this.copyFrom('.ti-embed-text'), 'whole-page': () => this.openWhole() };
    for (const [name, act] of Object.entries(acts)) this.$('[data-act="' + name + '"]').addEventListener('click', act);
    for (const node of this.root.querySelectorAll('.ti-short-text, .ti-embed-text')) node.addEventListener('focus', () => node.select());
  }
}
