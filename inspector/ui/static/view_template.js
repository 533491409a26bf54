// Template source of both panes, with line numbers; lines that wrote bytes of the prompt are marked.

const templateLines = (pane) => {
  if (!pane.template || pane.template.text === null) return noLines('no_template');
  const ran = new Set(pane.segments.line);
  return pane.template.text.split('\n').map((text, k) => ({ gutter: String(k + 1), cls: 'ti-src' + (ran.has(k + 1) ? ' ti-ran' : ''), parts: [['', text || ' ']] }));
};

// Lines stand side by side by number, or moved so that the first lines of a link face each other: state.shift[q] lines down.
const templateModel = (state, cols) => {
  const model = sideBySide(state, cols, templateLines, { gutterWidth: 44 }), { shift } = state;
  return {
    ...model, rows: model.rows + Math.max(...shift),
    lines: (q, k) => model.lines(q, k - shift[q]),
    gutter: (q, k, j) => model.gutter(q, k - shift[q], j),
    paint: (q, k, j, host) => model.paint(q, k - shift[q], j, host),
    lineAt: (q, k) => k - shift[q] + 1,
    rowOf: (q, line) => line - 1 + shift[q],
  };
};

VIEW_MODELS.template = { gutter: 44, model: templateModel, legend: (_bench, item) => item('ti-ranmark', t('lines_that_wrote')) };
