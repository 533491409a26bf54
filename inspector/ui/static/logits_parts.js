// Below the verdict: a sampler's filters, a walk token by token, what-ifs, and the prompt's own heat. Each is a disclosure
// that asks when it is opened, of one pane.

const STEPS_A_CALL = 4, MOST_WALKED = 256;
const SAMPLER = [['temperature', 0, 2, 0.05, 1], ['top_k', 0, 200, 1, 0], ['top_p', 0, 1, 0.01, 1], ['min_p', 0, 0.5, 0.01, 0], ['repetition_penalty', 0.8, 2, 0.01, 1]];
const SAMPLER_ORDERS = ['transformers', 'vllm', 'llama.cpp'];

const logitsParts = (bench, kept) => {
  const node = el('div', 'ti-modelparts'), pane = { q: 0 };
  const one = () => { const request = bench.readShown(); return { ...request, panes: [request.panes[Math.min(pane.q, request.panes.length - 1)]] }; };
  const which = el('select'); which.dataset.in = 'logits_pane';
  const fillPanes = () => {
    const count = bench.state.own.panes.length;
    if (which.options.length === count) return;
    which.replaceChildren(...bench.state.own.panes.map((_, q) => { const option = el('option', '', letter(q)); option.value = q; return option; }));
    pane.q = Math.min(pane.q, count - 1); which.value = pane.q;
  };
  const walk = walkPart(bench, one, kept.walk || {}), parts = { sampler: samplerPart(bench, one, kept.sampler || {}, walk), walk, whatif: whatifPart(bench, one), heat: heatPart(bench) };
  const openPart = (name, part) => { if (!serverLacks(bench, name)) part.opened(); };
  const boxes = Object.entries(parts).map(([name, part]) => {
    const box = el('details', 'ti-part-' + name + ' ti-modelpart'), head = el('summary', '', t('part_' + name));
    const hold = el('fieldset', 'ti-hold'), lacks = el('p', 'ti-lacks');
    lacks.id = FLOW.uid + '-lacks-' + name; lacks.hidden = true; hold.setAttribute('aria-describedby', lacks.id); hold.setAttribute('aria-label', t('part_' + name));
    hold.append(part.node);
    box.append(head, el('p', 'ti-dim', t('part_' + name + '_why')), lacks, hold);
    part.hold = (reason) => { hold.disabled = Boolean(reason); lacks.hidden = !reason; lacks.textContent = reason && '\u26a0 ' + reason; };
    box.open = Boolean((kept.open || []).includes(name));
    box.addEventListener('toggle', () => { if (box.open) openPart(name, part); });
    part.box = box;
    return box;
  });
  which.addEventListener('change', () => { pane.q = +which.value; for (const [name, part] of Object.entries(parts)) { part.forget(); if (part.box.open) openPart(name, part); } });
  node.append(labelled('of_pane', which, 'ti-inline'), ...boxes);
  return {
    node,
    keep: () => ({ open: Object.keys(parts).filter((name) => parts[name].box.open), walk: walk.keep(), sampler: parts.sampler.keep() }),
    // `fresh`: there is a new verdict; what hangs on the input is old.
    refresh: (fresh) => {
      fillPanes(); walk.showAge();
      for (const [name, part] of Object.entries(parts)) part.hold(serverLacks(bench, name));
      if (fresh) for (const [name, part] of Object.entries(parts)) { part.forget(); if (part.box.open && part !== walk && part !== parts.whatif) openPart(name, part); }
    },
    goOn: (row) => { walk.box.open = true; walk.begin(row); walk.box.scrollIntoView({ block: 'nearest' }); },
  };
};
// The line of one that is asked: what it is at, and a way to give it up.
const busyLine = (asker) => {
  const line = el('div', 'ti-logbar'), said = el('span', 'ti-dim', asker.doing); said.setAttribute('role', 'status');
  line.append(said, button('ti-btn', t('give_up'), () => asker.giveUp()));
  return line;
};

// ---- the sampler
const samplerPart = (bench, one, kept, walk) => {
  const node = el('div'), out = el('div'), form = el('div', 'ti-sliders'), values = Object.fromEntries(SAMPLER.map(([name, , , , off]) => [name, off])), inputs = {}, order = el('select');
  Object.assign(values, kept.values);
  let answer = null, timer = 0;
  const asker = new ModelAsker(bench, 'sampler', () => {});
  const ask = async () => {
    const found = await asker.ask({ ...one(), settings: { ...values, order: order.value }, ids: (bench.state.logits && bench.state.logits.stop_ids) || [], appended: walk.ids() });
    if (found && !found.cancelled) { answer = found; draw(); }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(ask, 120); };
  const draw = () => { if (answer) out.replaceChildren(...(answer.error ? [alertLine(answer.error)] : samplerRows(answer))); };
  for (const [name, low, high, step] of SAMPLER) {
    const slider = el('input'), box = el('input'), label = labelled('sampler_' + name, slider, 'ti-slider');
    Object.assign(slider, { type: 'range', min: low, max: high, step }); Object.assign(box, { type: 'number', min: low, step });
    slider.dataset.in = 'sampler_' + name; box.dataset.in = 'sampler_' + name + '_number'; box.setAttribute('aria-label', t('sampler_' + name));
    const set = (value) => { values[name] = value; slider.value = value; box.value = value; };
    slider.addEventListener('input', () => { set(+slider.value); soon(); });
    box.addEventListener('input', () => { if (box.value !== '' && box.checkValidity()) { values[name] = +box.value; slider.value = box.value; soon(); } });
    inputs[name] = set; set(values[name]);
    label.append(box); form.append(label);
  }
  for (const name of SAMPLER_ORDERS) { const option = el('option', '', name); option.value = name; order.append(option); }
  order.dataset.in = 'sampler_order'; order.value = kept.order || SAMPLER_ORDERS[0];
  order.addEventListener('change', soon);
  const setAll = (settings) => { for (const [name, , , , off] of SAMPLER) inputs[name](settings[name] ?? off); soon(); };
  const own = button('ti-btn', t('sampler_own'), () => setAll(bench.state.logits.sampler || {}));
  const row = el('div', 'ti-logbar');
  row.append(labelled('sampler_order', order, 'ti-inline'), button('ti-btn', t('sampler_off'), () => setAll({})), own);
  node.append(form, row, out);
  const mark = () => { own.hidden = !(bench.state.logits && bench.state.logits.sampler); };
  return { node, opened: () => { mark(); if (!answer) ask(); }, forget: () => { answer = null; mark(); }, keep: () => ({ values, order: order.value }) };
};
const samplerRows = (answer) => {
  const most = Math.max(1e-9, ...answer.rows.flatMap((row) => [row.raw, row.after])), node = el('table', 'ti-logits ti-sampled'), head = el('tr'), cuts = el('ul', 'ti-filters');
  for (const cut of answer.cuts) cuts.append(el('li', '', t(cut.cut ? 'sampler_cut' : 'sampler_scaled', { filter: t('sampler_' + cut.filter), value: cut.value, n: number(cut.cut), mass: percent(cut.mass), left: number(cut.left) })));
  if (!answer.cuts.length) cuts.append(el('li', 'ti-dim', t('sampler_nothing')));
  for (const text of [t('id'), t('col_token'), t('sampler_raw'), t('sampler_after')]) { const cell = el('th', '', text); cell.scope = 'col'; head.append(cell); }
  node.append(head);
  for (const row of answer.rows) {
    const line = el('tr', row.cut_by ? 'ti-cutaway' : ''), bar = (prob, q) => { const cell = el('td', 'ti-barcell'), fill = el('span', 'ti-bar ti-bar' + q); fill.style.width = Math.max(prob ? 0.5 : 0, (100 * prob) / most) + '%'; cell.append(fill, el('span', 'ti-barnum', q && row.cut_by ? '\u2702 ' + t('sampler_' + row.cut_by) : percent(prob))); return cell; };
    line.append(el('td', 'ti-num', String(row.id)), el('td', 'ti-piece', spelledToken(row)), bar(row.raw, 0), bar(row.after, 1));
    node.append(line);
  }
  return [cuts, wideTable(node)];
};

// ---- the walk
const walkPart = (bench, one, kept) => {
  const node = el('div'), out = el('div'), bar = el('div', 'ti-logbar'), count = el('input'), text = textLine('walk_text', '', 'walk_hint'), stops = textLine('walk_stops', kept.stops, 'walk_stops_hint');
  let path = [], branches = [], open = -1, running = false, wanted = true, error = '', of = '';
  // What is walked goes on from one prompt; of another one it is old: it is marked, and not gone on from.
  const keyNow = () => JSON.stringify(one()), isOld = () => Boolean(path.length || branches.length) && !running && of !== keyNow();
  Object.assign(count, { type: 'number', min: 1, max: MOST_WALKED, value: kept.count || 24 }); count.dataset.in = 'walk_count';
  const asker = new ModelAsker(bench, 'walk', () => draw());
  // Take steps until the number is reached, a stop rule holds, or a person stops it; each call's steps are shown at once.
  const go = async (tokens, chosen, typed) => {
    if (running) return;
    if (isOld()) forget();
    error = ''; of = keyNow(); running = true; wanted = true;
    let left = tokens, first = true;
    while (left > 0 && wanted && path.length < MOST_WALKED) {
      const before = path, answer = await asker.ask({ ...one(), appended: path.map(({ id }) => id), chosen: first ? chosen || [] : [], text: first ? typed || '' : '', tokens: Math.min(left, STEPS_A_CALL), limit: MOST_WALKED, stop_strings: stops.value ? [unescaped(stops.value)] : [] });
      if (!answer || answer.cancelled || path !== before) break;
      if (answer.error) { error = answer.error; break; }
      path = [...path, ...answer.steps]; left -= answer.steps.length; first = false;
      draw();
      if (!answer.steps.length || answer.steps[answer.steps.length - 1].stop) break;
    }
    running = false; draw();
  };
  const branch = (at, row) => {
    if (running) return;
    if (isOld()) { showAge(); return; }
    if (path.length > at) branches = [path, ...branches.filter((old) => old !== path)].slice(0, 6);
    path = path.slice(0, at); open = -1;
    go(1, [row.id], '');
  };
  const showAge = () => { const flag = isOld(); aged.hidden = !flag; node.classList.toggle('ti-oldwalk', flag); };
  const draw = () => keepFocus(out, () => {
    showAge();
    const line = el('div', 'ti-seq ti-walked');
    path.forEach((step, k) => {
      const chip = focusable(button('ti-walktok ' + (step.control ? 'ti-walkcontrol ' : 'k' + (k & 1) + ' ') + (k === open ? 'ti-walkopen' : ''), spelledToken(step), () => { open = open === k ? -1 : k; draw(); }), 'walk' + k);
      chip.title = percent(Math.exp(step.logprob ?? -Infinity)) + ' #' + step.rank; chip.setAttribute('aria-expanded', k === open);
      if (step.rank > 1) chip.append(el('sub', 'ti-dim', '#' + step.rank));
      line.append(chip);
    });
    const last = path[path.length - 1], status = asker.busy ? asker.doing : error ? '' : !path.length ? t('walk_empty') : last.stop ? t('walk_stopped', { rule: { eos: t('stop_eos'), window: t('stop_window'), length: t('stop_length') }[last.stop] || show(last.stop) }) : t('walk_goes_on', { n: path.length });
    const said = el('p', 'ti-dim', status); said.setAttribute('role', 'status');
    stop.hidden = !running; clear.hidden = !path.length;
    out.replaceChildren(line, said, ...(error ? [alertLine(error)] : []), ...(open >= 0 && path[open] ? [candidatesOf(path[open], open, branch)] : []), ...branchList(branches, (old) => { branches = [path, ...branches.filter((each) => each !== old)].filter((each) => each.length); path = old; open = -1; draw(); }));
  });
  const start = button('ti-btn', t('walk_go'), () => go(+count.value || 1)), stop = button('ti-btn', t('give_up'), () => { wanted = false; asker.giveUp(); }), clear = button('ti-btn', t('walk_clear'), () => { wanted = false; asker.giveUp(); path = []; branches = []; open = -1; error = ''; draw(); });
  text.addEventListener('keydown', (event) => { if (event.key === 'Enter' && text.value) { const typed = text.value; text.value = ''; go(1, [], typed); } });
  bar.append(start, labelled('walk_count', count, 'ti-inline ti-count'), stop, labelled('walk_type', text, 'ti-inline'), labelled('walk_stops', stops, 'ti-inline'), clear);
  const aged = el('p', 'ti-warn', t('walk_old')); aged.setAttribute('role', 'status');
  node.append(bar, aged, out);
  const forget = () => { if (running) { wanted = false; asker.giveUp(); } path = []; branches = []; open = -1; error = ''; draw(); };
  draw();
  return { node, opened: () => {}, forget, showAge, begin: (row) => { path = []; open = -1; go(1, [row.id], ''); }, ids: () => path.map(({ id }) => id), keep: () => ({ count: count.value, stops: stops.value }) };
};
const candidatesOf = (step, at, branch) => {
  const box = el('div', 'ti-candidates');
  box.append(el('span', 'ti-key', t('walk_instead')));
  for (const row of step.candidates) { const chip = focusable(button('ti-btn' + (row.id === step.id ? ' ti-chosen' : ''), spelledToken(row) + ' ' + percent(Math.exp(row.logprob)), () => branch(at, row)), 'cand' + at + '-' + row.id); chip.disabled = row.id === step.id; box.append(chip); }
  return box;
};
const branchList = (branches, take) => {
  if (!branches.length) return [];
  const list = el('ul', 'ti-branches');
  branches.forEach((path, k) => { const item = el('li'), link = focusable(button('ti-link', path.map(spelledToken).join(''), () => take(path)), 'branch' + k); item.append(link); list.append(item); });
  return [el('p', 'ti-key', t('walk_branches')), list];
};

// ---- what if
const whatifPart = (bench, one) => {
  const node = el('div'), out = el('div');
  let answer = null;
  const asker = new ModelAsker(bench, 'whatif', () => draw());
  const ask = async () => { const found = await asker.ask(one()); if (found && !found.cancelled) answer = found; draw(); };
  const draw = () => {
    const rows = asker.busy ? asker.found : answer && answer.rows ? answer.rows : [], done = rows.filter((row) => row.distance), none = rows.filter((row) => row.why_not);
    const said = answer && answer.error && !asker.busy ? [alertLine(answer.error)] : [];
    out.replaceChildren(...(asker.busy ? [busyLine(asker)] : [button('ti-btn ti-runwhatif', t(answer ? 'whatif_again' : 'whatif_run'), ask)]), ...said, ...(rows.length ? [wideTable(whatifTable(rows.filter((row) => !row.why_not)))] : []), ...(none.length ? [whatifNone(none)] : []));
    return done;
  };
  node.append(out);
  draw();
  return { node, opened: () => { if (!answer && !asker.busy) ask(); }, forget: () => { asker.giveUp(); answer = null; draw(); } };
};
const whatifTable = (rows) => {
  const node = el('table', 'ti-logits ti-whatif'), head = el('tr');
  for (const text of [t('whatif_case'), 'JS', t('whatif_top'), t('col_tokens')]) { const cell = el('th', '', text); cell.scope = 'col'; head.append(cell); }
  node.append(head);
  for (const row of rows) {
    const line = el('tr'), name = el('td', 'ti-casename', t('case_' + row.name)), meter = el('td', 'ti-barcell'), fill = el('span', 'ti-bar ti-bar1'), top = el('td', 'ti-piece');
    name.title = t('case_' + row.name + '_why');
    if (row.error) { const cell = el('td'); cell.colSpan = 3; cell.append(el('span', 'ti-hot', row.error)); line.append(name, cell); node.append(line); continue; }
    fill.style.width = Math.max(0.5, (100 * leastJs(row.distance)) / Math.LN2) + '%';
    meter.append(fill, el('span', 'ti-barnum', distanceFigure(row.distance, 'js') + (row.distance.max_logit_change === null ? '' : ' \u00b7 ' + t('logit_change', { change: row.distance.max_logit_change.toFixed(3) }))));
    top.append(el('span', row.distance.top1_changed ? 'ti-changedtop' : '', (row.distance.top1_changed ? '\u26a0 ' : '') + spelledToken(row.top) + ' ' + percent(row.top.prob)));
    line.append(name, meter, top, el('td', 'ti-num', number(row.tokens)));
    node.append(line);
  }
  return node;
};
const whatifNone = (rows) => {
  const box = el('details', 'ti-notes'), list = el('ul', 'ti-filters');
  box.append(el('summary', '', t('whatif_none', { n: rows.length })));
  for (const row of rows) list.append(el('li', 'ti-dim', t('case_' + row.name) + ': ' + said(row.why_not)));
  box.append(list);
  return box;
};

// ---- the prompt's own heat
const heatPart = (bench) => {
  const node = el('div'), out = el('div'), { state } = bench;
  let failed = [];
  const asker = new ModelAsker(bench, 'heat', () => draw());
  const ask = () => askHeats(bench, asker, (errors) => { failed = errors; draw(); });
  const draw = () => {
    placeHeat(state);
    const scored = state.own.panes.map((pane, q) => [pane.heat, q]).filter(([heat]) => heat), line = el('div', 'ti-logbar');
    if (!asker.busy && heatless(state).length) line.append(button('ti-btn', t('ask_heat'), ask));
    if (scored.length) line.append(button('ti-btn', t('colour_tokens'), () => { state.colour = 'surprise'; bench.open('tokens'); }));
    out.replaceChildren(...(asker.busy ? [busyLine(asker)] : []), line, ...failed.map(alertLine), ...scored.map(([heat, q]) => heatTable(heat, q)));
  };
  node.append(out);
  return { node, opened: () => { draw(); if (!asker.busy && heatless(state).length) ask(); }, forget: () => { failed = []; draw(); } };
};
const heatTable = (heat, q) => {
  const box = el('div', 'ti-heatpane'), node = el('table', 'ti-logits ti-heattable'), head = el('tr'), most = Math.max(0.1, ...heat.parts.map((part) => -part.mean));
  box.append(el('p', 'ti-dim', letter(q) + ' \u00b7 ' + t('heat_head', { loss: (-heat.mean).toFixed(4), n: number(heat.tokens - 1), dtype: heat.dtype, perplexity: Math.exp(-heat.mean).toFixed(1) })));
  for (const text of [t('heat_part'), t('heat_mean'), t('heat_worst'), t('col_tokens')]) { const cell = el('th', '', text); cell.scope = 'col'; head.append(cell); }
  node.append(head);
  for (const part of heat.parts) {
    const line = el('tr'), meter = el('td', 'ti-barcell'), fill = el('span', 'ti-bar ti-bar1');
    fill.style.width = Math.max(0.5, (100 * -part.mean) / most) + '%';
    meter.append(fill, el('span', 'ti-barnum', (-part.mean).toFixed(3)));
    line.append(el('td', '', part.path || t(part.kind === 'generation_prompt' ? 'flag_generation_prompt' : 'kind_' + part.kind)), meter, el('td', 'ti-piece', spelledToken({ piece: part.worst_piece, bytes: part.worst_bytes }) + '  #' + part.worst), el('td', 'ti-num', number(part.tokens)));
    node.append(line);
  }
  box.append(wideTable(node));
  return box;
};
