// How expected every token of a prompt was to the model: asked for a pane, laid over the token flow as a colour.
// A pane has no heat while none was asked for exactly its ids. The width of the underline says the same as the colour.

const SURPRISES = [0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-6];  // probabilities from which a token is one step more surprising
const surpriseStep = (logprob) => { const prob = Math.exp(logprob); let k = 0; while (k < SURPRISES.length && prob < SURPRISES[k]) k++; return k; };
const percent = (prob) => (prob >= 0.0001 || prob === 0 ? (100 * prob).toFixed(2) : (100 * prob).toExponential(1)) + ' %';

// What a model is asked once; a newer question takes the place of an older one, and either may be given up.
class ModelAsker {
  // changed(): what it is at is another.
  constructor(bench, name, changed) { Object.assign(this, { bench, name, changed, busy: false, doing: '', turn: 0, found: [] }); }
  // The answer; null when a newer question came, `{cancelled: true}` when it was given up.
  async ask(body, what = this.name) {
    if (!serverAgreed(this.bench)) return { cancelled: true };
    const { server, session } = this.bench, mine = ++this.turn;
    Object.assign(this, { busy: true, doing: t('computing'), found: [], what });
    this.changed();
    const watch = setInterval(async () => {
      const text = await server.model_progress({ session, what }), run = typeof text === 'string' ? JSON.parse(text) : null;
      if (!run || mine !== this.turn || !this.busy) return;
      this.doing = doingOf(run); this.found = run.found;
      this.changed();
    }, 400);
    const text = await server[this.name]({ session, ...modelAsked(this.bench), turn: mine, ...body });
    clearInterval(watch);
    if (mine !== this.turn) return null;
    Object.assign(this, { busy: false, doing: '' });
    if (typeof text !== 'string') this.bench.lost(true);
    const answer = typeof text === 'string' ? JSON.parse(text) : { cancelled: true };
    this.changed();
    return answer;
  }
  giveUp() { if (this.busy) this.bench.server.model_cancel({ session: this.bench.session, what: this.what }); }
}
const doingOf = ({ doing, done, total }) => (doing === 'computing' && total && done ? t('computing_tokens', { done: number(done), total: number(total) }) : t('model_' + doing));

const sameIds = (a, b) => a.length === b.length && a.every((id, i) => id === b[i]);
// Lay each heat over the panes with its ids.
const placeHeat = (state) => {
  for (const pane of state.panes) if (!pane.heat || !(state.heats || []).includes(pane.heat)) pane.heat = (state.heats || []).find((heat) => sameIds(heat.input_ids, pane.ids)) || null;
};
const heatless = (state) => { placeHeat(state); return state.own.panes.filter((pane) => pane.n && !pane.heat); };

// Ask for the panes that have none; `done` is told after each.
const askHeats = async (bench, asker, done) => {
  const { state } = bench, failed = [];
  for (let q = 0; q < state.own.panes.length; q++) {
    placeHeat(state);
    const pane = state.own.panes[q];
    if (!pane.n || pane.heat) continue;
    const request = bench.readShown(), slot = request.panes[q].slot ?? q, answer = await asker.ask({ ...request, panes: [request.panes[q]] }, 'heat-' + slot);
    if (!answer || answer.cancelled) break;
    if (answer.error) failed.push(letter(q) + ': ' + answer.error);
    else state.heats = [answer, ...(state.heats || []).filter((heat) => !sameIds(heat.input_ids, answer.input_ids))].slice(0, 8);
    done(failed);
  }
  done(failed);
};

TONES.surprise = (pane, i) => (pane.heat && pane.heat.logprobs[i] !== null ? 'ti-su ti-su' + surpriseStep(pane.heat.logprobs[i]) : 'o-template');
const surpriseText = (pane, i) => {
  if (!pane.heat) return '';
  const logprob = pane.heat.logprobs[i];
  return logprob === null ? t('no_past') : percent(Math.exp(logprob)) + ' \u00b7 ' + logprob.toFixed(3) + ' nats \u00b7 #' + number(pane.heat.ranks[i]);
};
const surpriseLegend = (item) => {
  SURPRISES.concat(0).forEach((prob, k) => item('ti-su ti-su' + k, (prob ? '\u2265 ' : '< ') + +(100 * (prob || SURPRISES[k - 1])).toPrecision(1) + ' %'));
};
// The button beside the colour: what is not scored yet is asked for by a person, not by every key.
const surpriseSwitch = (bench, host) => {
  const { state } = bench;
  bench.heatAsker = bench.heatAsker || new ModelAsker(bench, 'heat', () => { if (bench.view === 'tokens') bench.drawTools(); });
  const asker = bench.heatAsker, ask = () => askHeats(bench, asker, (failed) => { state.heatErrors = failed; bench.drawTools(); bench.draw(true); });
  if (asker.busy) { const line = el('span', 'ti-dim', asker.doing); line.setAttribute('role', 'status'); host.append(line, button('ti-btn', t('give_up'), () => asker.giveUp())); return; }
  const lacks = serverLacks(bench, 'heat');
  if (heatless(state).length) {
    const go = button('ti-btn ti-askheat', t('ask_heat'), ask);
    go.disabled = Boolean(lacks);
    host.append(go, ...(lacks ? [el('span', 'ti-dim', '\u26a0 ' + lacks)] : []));
  }
  for (const text of state.heatErrors || []) host.append(alertLine(text));
};
