// The budget decision: the numbers, then every unit of the request as kept, cut or dropped.

const budgetLines = (pane) => {
  const budget = pane.budget;
  if (!budget) return noLines('no_window');
  const heads = ['context_window', 'max_new_tokens', 'max_input_tokens', 'policy', 'input_tokens', 'required_tokens']
    .map((key) => ({ parts: [['ti-key', t('budget_' + key)], ['', ' ' + (typeof budget[key] === 'number' ? number(budget[key]) : String(budget[key] ?? '\u2013'))]] }));
  const unit = (mark, cls, path, note) => ({ cls, parts: [['ti-key', mark + ' '], ['', path], ['ti-dim', note ? '  ' + note : '']] });
  return [...heads, { parts: [['', ' ']] },
    ...budget.kept.map((path) => unit('\u2713 ' + t('kept'), 'ti-kept', path)),
    ...budget.cut.map((c) => unit('\u2702 ' + t('cut'), 'ti-cut', c.path, t('tokens_lost', { n: number(c.tokens_lost) }))),
    ...budget.dropped.map((d) => unit('\u2717 ' + t('dropped'), 'ti-dropped', d.path, t('dropped_note', { n: number(d.tokens), reason: d.reason })))];
};

VIEW_MODELS.budget = { gutter: 12, model: (state, cols) => sideBySide(state, cols, budgetLines, { gutterWidth: 12 }) };
