// Template source of both panes, with line numbers; lines that wrote bytes of the prompt are marked.

const templateLines = (pane) => {
  if (!pane.template || pane.template.text === null) return noLines('no_template');
  const ran = new Set(pane.segments.line);
  return pane.template.text.split('\n').map((text, k) => ({ gutter: String(k + 1), cls: 'ti-src' + (ran.has(k + 1) ? ' ti-ran' : ''), parts: [['', text || ' ']] }));
};

VIEW_MODELS.template = { gutter: 44, model: (state, cols) => sideBySide(state, cols, templateLines, { gutterWidth: 44 }) };
