// Where a model runs: this machine, or a model server that the operator listed or, on a page for oneself, that a person typed.
// A server that only a link or an earlier visit names is sent nothing until a person asks it here.

const OTHER_SERVER = 'other';
const serverOf = (bench) => ({ url: bench.field('backend').value, model: bench.field('backend_model').value.trim() });
const serverAgreed = (bench) => { const { url } = serverOf(bench); return !url || bench.config.servers.listed.includes(url) || bench.agreedServer === url; };
const agreeServer = (bench) => { bench.agreedServer = serverOf(bench).url; };
// What says which model is asked, in every question to it.
const modelAsked = (bench) => { const { url, model } = serverOf(bench); return url ? { backend: url, model, dtype: null } : { backend: null, model: bench.modelRef(), dtype: bench.state.dtype || null }; };
// Heat is of the model that gave it.
const forgetOtherModel = (bench) => {
  const { backend, model } = modelAsked(bench), key = [backend, model].join(' ');
  if (bench.modelKey !== undefined && bench.modelKey !== key) { bench.state.heats = []; placeHeat(bench.state); }
  bench.modelKey = key;
};
// Why a part cannot be had of the chosen server, '' where it can or is not known yet.
const serverLacks = (bench, part) => {
  const { url } = serverOf(bench), known = bench.modelServer;
  if (!url) return '';
  if (!serverAgreed(bench)) return t('server_unasked', { url: show(url) });
  if (!known || known.url !== url || !known.about || known.about.error) return '';
  if (part === 'heat' && !known.about.prompt_logprobs) return t('server_no_heat', { kind: serverKind(known.about) });
  return part === 'sampler' && !known.about.full_vocabulary ? t('server_no_sampler') : '';
};
const serverKind = ({ kind }) => (kind === 'other' ? t('server_kind_other') : kind);
// A key or password does not go into the page's state, which links carry.
const holdsSecret = (text) => { try { const { username, password, search, hash } = new URL(text); return Boolean(username || password || search || hash); } catch (error) { return false; } };
const serverFacts = (about) => [
  serverKind(about), about.models.slice(0, 4).map(show).join(', '), about.window === null ? '' : t('server_window', { n: number(about.window) }),
  (about.full_vocabulary ? '\u2713 ' : '\u2717 ') + t(about.full_vocabulary ? 'server_full' : 'server_listed'), (about.prompt_logprobs ? '\u2713 ' : '\u2717 ') + t(about.prompt_logprobs ? 'server_heat' : 'server_without_heat'), '\u2717 ' + t('server_own_dtype'),
].filter(Boolean).join(' \u00b7 ');

// The controls. `ask()`: a person chose; `changed()`: it is known what the server can give.
const serverPart = (bench, ask, changed) => {
  const { listed, typed } = bench.config.servers, node = el('div', 'ti-serverbox'), bar = el('div', 'ti-logbar'), choice = el('select'), url = textLine('logits_server', '', 'server_hint'), model = textLine('logits_server_model', '', 'server_model_hint');
  const facts = el('span', 'ti-dim'), wrong = el('p', 'ti-err'), names = el('datalist'), boxes = [labelled('server_url', url, 'ti-inline ti-serverurl'), labelled('server_model', model, 'ti-inline')];
  let typing = false, refused = '';
  choice.dataset.in = 'logits_backend'; facts.setAttribute('role', 'status'); wrong.setAttribute('role', 'alert');
  wrong.id = FLOW.uid + '-server-err'; names.id = FLOW.uid + '-server-models'; url.setAttribute('aria-describedby', wrong.id); model.setAttribute('list', names.id);
  const known = () => { const now = bench.modelServer; return now && now.url === serverOf(bench).url ? now : null; };
  const learn = async () => {
    const mine = (bench.modelServer = { url: serverOf(bench).url, about: null });
    draw();
    const text = await bench.server.model_server({ session: bench.session, backend: mine.url });
    if (typeof text !== 'string') { bench.lost(true); bench.modelServer = null; return; }
    mine.about = JSON.parse(text);
    if (known() !== mine) return;
    draw(); changed();
  };
  // Take the server of that address, ask it what it is, and then for the verdict.
  const take = async (text) => {
    refused = holdsSecret(text) ? t('server_secret') : '';
    if (refused) { draw(); return; }
    bench.agreedServer = text; bench.modelServer = null;
    bench.field('backend_model').value = '';
    setField(bench, 'backend', text);
    if (text) await learn();
    draw();
    if (!text || (known() && known().about && !known().about.error)) ask();
  };
  const entries = (now) => [['', t('server_here')], ...listed.map((each) => [each, show(each)]), ...(typed ? [[OTHER_SERVER, t('server_other')]] : now && !listed.includes(now) ? [[now, t('server_not_offered', { url: show(now) })]] : [])];
  const draw = () => {
    const now = serverOf(bench), custom = typed && (typing || (now.url !== '' && !listed.includes(now.url))), found = known(), about = found && found.about, options = entries(now.url), key = JSON.stringify(options);
    if (choice.key !== key) { choice.key = key; choice.replaceChildren(...options.map(([value, text]) => { const option = el('option', '', text); option.value = value; return option; })); }
    choice.value = custom ? OTHER_SERVER : now.url;
    node.hidden = options.length === 1;
    boxes[0].hidden = !custom; boxes[1].hidden = !now.url;
    if (document.activeElement !== url && !refused) url.value = now.url;
    if (document.activeElement !== model) model.value = now.model;
    const models = (about && about.models) || [];
    names.replaceChildren(...(models.length > 1 ? models : []).map((name) => { const option = el('option'); option.value = name; return option; }));
    const text = !now.url || !serverAgreed(bench) ? '' : about ? (about.error ? '' : serverFacts(about)) : found ? t('server_asking') : '';
    if (facts.textContent !== text) facts.textContent = text;
    const fault = refused || (about && about.error) || '';
    wrong.hidden = !fault;
    if (wrong.textContent !== fault) wrong.textContent = fault;
    url.setAttribute('aria-invalid', String(Boolean(fault)));
  };
  choice.addEventListener('change', () => {
    typing = choice.value === OTHER_SERVER; refused = '';
    if (!typing) { take(choice.value); return; }
    setField(bench, 'backend', ''); url.value = '';
    draw(); url.focus();
  });
  url.addEventListener('change', () => { typing = true; take(url.value.trim()); });
  model.addEventListener('change', () => { setField(bench, 'backend_model', model.value.trim()); ask(); });
  bar.append(labelled('server', choice, 'ti-inline'), ...boxes, names, facts);
  node.append(bar, wrong);
  return { node, refresh: () => { const { url: now } = serverOf(bench); if (now && serverAgreed(bench) && !known()) learn(); draw(); } };
};
