// New special tokens: which ids they get, which rows that needs, what has to be done besides, the program that does it; and the
// model that is loaded here, tried with them.

const NEW_TOKENS = { of: 0, tokens: '<plan>\n</plan>', rows: '', multiple: '64', tied: '' };
const MOST_SLOTS = 12;

const buildVocabulary = (bench) => {
  const node = el('div', 'ti-tool'), bar = el('div', 'ti-askbar'), out = el('div', 'ti-out'), trial = el('div', 'ti-box'), tried = el('div', 'ti-out');
  const ui = { node, answer: null }, options = () => viewOptions(bench, 'vocabulary', NEW_TOKENS), set = (values, ms) => { setViewOptions(bench, 'vocabulary', values); asker.soon(ms || 0); };
  const which = selectOf('vocabulary_of', [], '', (value) => set({ of: +value })), tokens = textBox(3, 'vocabulary_tokens', ''), rows = textLine('vocabulary_rows', '', 'vocabulary_rows_hint'), multiple = textLine('vocabulary_multiple', '', 'vocabulary_multiple_hint');
  const tied = selectOf('vocabulary_tied', [['', t('vocabulary_tied_unknown')], ['yes', t('yes')], ['no', t('no')]], '', (value) => set({ tied: value }));
  rows.inputMode = multiple.inputMode = 'numeric';
  tokens.addEventListener('input', () => set({ tokens: tokens.value }, 250)); rows.addEventListener('input', () => set({ rows: rows.value }, 250)); multiple.addEventListener('input', () => set({ multiple: multiple.value }, 250));
  bar.append(labelled('vocabulary_of', which, 'ti-midask'), labelled('vocabulary_tokens', tokens, 'ti-midask'), labelled('vocabulary_rows', rows, 'ti-newask'), labelled('vocabulary_multiple', multiple, 'ti-newask'), labelled('vocabulary_tied', tied, 'ti-newask'));
  const q = () => Math.min(options().of, bench.slots.length - 1), body = () => { const chosen = options(); return { tokenizer: bench.read().panes[q()].tokenizer, tokens: chosen.tokens.split('\n').filter(Boolean), rows: chosen.rows, multiple: chosen.multiple, tied: chosen.tied }; };
  const asker = new Asker(bench, 'vocabulary', body, (answer, busy, doing) => { ui.answer = answer; if (answerState(out, answer, busy, doing)) keepFocus(out, () => out.replaceChildren(...planParts(bench, answer))); });
  const tryAsker = new Asker(bench, 'vocabulary_trial', () => { const { fields, panes } = bench.readShown(); return { at: bench.at, fields, panes: [panes[q()]], model: bench.modelRef(), ...body() }; }, (answer, busy, doing) => {
    go.disabled = busy;
    if (answerState(tried, answer, busy, doing)) tried.replaceChildren(trialParts(answer));
  });
  const go = button('ti-btn', '', () => tryAsker.now(true)), about = el('p', 'ti-dim', t('trial_about'));
  trial.append(el('p', 'ti-boxhead', t('trial_title')), about, go, tried);
  node.append(bar, out, trial);
  ui.refresh = () => {
    const chosen = options(), put = (box, value) => { if (document.activeElement !== box && box.value !== value) box.value = value; };
    which.replaceChildren(...bench.slots.map((_, k) => { const option = el('option', '', letter(k) + ' \u00b7 ' + refText(bench.read().panes[k].tokenizer)); option.value = k; return option; }));
    which.value = q(); put(tokens, chosen.tokens); put(rows, chosen.rows); put(multiple, chosen.multiple); tied.value = chosen.tied;
    go.textContent = t('trial_go', { model: bench.modelRef(), pane: letter(q()) });
    asker.soon(asker.answer ? 300 : 0);
  };
  return ui;
};
const planParts = (bench, plan) => [planFacts(plan), ...trapLine(plan), newTokens(plan), ...slotsBox(bench, plan), checklist(plan), codeBox(bench, plan)];
const planFacts = (plan) => {
  const line = el('p', 'ti-budgetfacts'), fact = (key, value) => { const one = el('span', 'ti-onefact'); one.append(el('span', 'ti-key', t(key)), ' ' + value); line.append(one, ' '); };
  fact('vocabulary_size', number(plan.size) + ' \u2192 ' + number(plan.size_after));
  fact('vocabulary_rows_now', plan.rows === null ? t('bite_unknown') : number(plan.rows) + ' (' + t('rows_from_' + plan.rows_from) + ')');
  fact('vocabulary_rows_after', number(plan.rows_after));
  fact('vocabulary_rows_added', number(plan.rows_added));
  return line;
};
const trapLine = (plan) => (plan.shrinks_to === null ? [] : [el('p', 'ti-err', t('vocabulary_trap', { rows: number(plan.rows), size: number(plan.size), to: number(plan.shrinks_to) }))]);
const newTokens = (plan) => {
  const node = table('', [t('vocabulary_token'), t('vocabulary_today'), t('vocabulary_id'), t('vocabulary_row')], 'ti-newtokens'), ids = new Map(plan.tokens.map(({ content, id }) => [content, id])), existing = new Map(plan.existing.map(({ content, id }) => [content, id]));
  for (const { content, ids: today, pieces } of plan.today) {
    const chips = el('span', 'ti-seq'), old = existing.has(content), id = old ? existing.get(content) : ids.get(content);
    chips.append(...today.map((token, k) => tokenChip(pieces[k], token, 'k' + (k & 1))));
    const row = old ? t('vocabulary_existing') : plan.rows === null ? t('bite_unknown') : id < plan.rows ? t('vocabulary_row_there') : t('vocabulary_row_new');
    node.append(rowOf([el('code', '', show(content)), chips, String(id), row]));
  }
  return wide(node);
};
const slotsBox = (bench, plan) => {
  if (!plan.num_reserved) return [el('p', 'ti-dim', t('vocabulary_no_slots'))];
  const box = el('details', 'ti-box'), list = el('div', 'ti-seq'), add = (from, to) => list.append(...plan.reserved.slice(from, to).map(({ content, id }) => tokenChip(content, id, 'ti-addedtok')));
  add(0, MOST_SLOTS);
  box.append(el('summary', 'ti-boxhead', t('vocabulary_slots', { n: number(plan.num_reserved) })), el('p', 'ti-dim', t('vocabulary_slots_about')), list);
  if (plan.reserved.length > MOST_SLOTS) { const more = moreButton(plan.reserved.length - MOST_SLOTS, () => { more.remove(); add(MOST_SLOTS); }); box.append(more); }
  return [box];
};
const checklist = (plan) => {
  const box = el('div', 'ti-box'), list = el('ul', 'ti-obligations');
  for (const { name, applies, why } of plan.obligations) {
    const item = el('li', applies ? '' : 'ti-dim');
    item.append((applies ? '\u2610 ' : '\u2013 ') , el('b', '', t('obligation_' + name)), ' ', el('span', 'ti-dim', applies ? said(why) : t('obligation_not')));
    list.append(item);
  }
  box.append(el('p', 'ti-boxhead', t('obligations')), list);
  return box;
};
const codeBox = (bench, plan) => {
  const box = el('div', 'ti-box'), head = el('p', 'ti-boxhead', t('vocabulary_code') + ' '), code = el('pre', 'ti-code', plan.code);
  head.append(button('ti-btn', t('copy_code'), () => bench.copy(plan.code)));
  code.tabIndex = 0; code.setAttribute('aria-label', t('vocabulary_code'));
  box.append(head, code);
  return box;
};
const trialParts = (trial) => {
  const box = el('div'), facts = el('p', 'ti-budgetfacts'), node = table('', ['#', t('trial_before'), t('trial_after')], 'ti-trial');
  const fact = (key, value) => { const one = el('span', 'ti-onefact'); one.append(el('span', 'ti-key', t(key)), ' ' + value); facts.append(one, ' '); };
  fact('trial_rows', number(trial.rows) + (trial.tied ? ', ' + t('trial_tied') : ''));
  fact('trial_mean_norm', trial.mean_norm.toFixed(3)); fact('trial_new_norm', trial.new_norm.toFixed(3));
  if (trial.leftover_norms.length) fact('trial_leftover', trial.leftover_norms.map((norm) => norm.toFixed(3)).join(', '));
  fact('trial_mass', (100 * trial.new_mass).toPrecision(3) + ' %');
  const cell = (side, k) => { const id = trial['top_' + side][k], share = trial['probs_' + side][k], out = el('span', 'ti-barcell'), bar = el('span', 'ti-bar'); bar.style.width = 100 * share + '%'; out.append(bar, el('span', 'ti-barnum', (100 * share).toFixed(2) + ' %')); const both = el('span', 'ti-trialcell'); both.append(el('code', '', show(trial.pieces[id] ?? '')), out); return both; };
  trial.top_before.forEach((_, k) => node.append(rowOf([String(k + 1), cell('before', k), cell('after', k)], trial.top_before[k] === trial.top_after[k] ? '' : 'ti-forged')));
  box.append(facts, wide(node));
  return box;
};

SENTENCES.push(
  [/^reserved entries have ids and rows already: use them first$/, 'said_obligation_reserved', []],
  [/^the chat template has to write the new tokens, or nothing ever does$/, 'said_obligation_template', []],
  [/^the embedding needs (\d+) rows$/, 'said_obligation_resize', ['n']],
  [/^resize_token_embeddings\(len\(tokenizer\)\) would cut (\d+) rows to (\d+), and emb\[old_n:\] would initialise nothing: the new ids have rows below (\d+)$/, 'said_obligation_shrink', ['rows', 'to', 'below']],
  [/^rows of new ids hold noise or leftovers: set them to the mean$/, 'said_obligation_initialise', []],
  [/^LoRA trains no new row: modules_to_save embed_tokens, lm_head$/, 'said_obligation_lora', []],
  [/^with tied embeddings the output row is the input row: initialise it once$/, 'said_obligation_tied', []],
  [/^save tokenizer and model together, with as many rows as ids or more$/, 'said_obligation_save', []],
  [/^a token that training never shows stays noise: cover each one$/, 'said_obligation_glitch', []],
);
