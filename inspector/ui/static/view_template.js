// Template source of the panes: read with line numbers and what each line did, aligned and linked with the tokens; or edited,
// one editor a pane (template_editor.js).

const NO_LINES = new Set();
// What the lines of a pane's template did in the answer that is shown: wrote bytes, ran, are code that did not run.
const templateMarks = (pane) => {
  const { template } = pane;
  if (!template || template.text === null) return null;
  const known = Boolean(template.lines_code && template.lines_code.length);
  return { text: plainBreaks(template.text), known, wrote: new Set(pane.segments.line), ran: known ? new Set(template.lines_ran) : NO_LINES, code: known ? new Set(template.lines_code) : NO_LINES };
};
const templateLines = (pane) => {
  const marks = templateMarks(pane);
  if (!marks) return noLines('no_template');
  const did = (line) => (marks.wrote.has(line) ? ' ti-ran' : marks.ran.has(line) ? ' ti-exec' : marks.code.has(line) ? ' ti-idle' : '');
  return pane.template.text.split('\n').map((text, k) => ({ gutter: String(k + 1), cls: 'ti-src' + did(k + 1), parts: [['', text || ' ']] }));
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

const TEMPLATE_VIEW = { editing: false };
const templateEditing = (bench, on) => {
  TEMPLATE_VIEW.editing = on;
  if (bench.view !== 'template') bench.open('template'); else { bench.drawTools(); bench.draw(true); bench.drawCard(); }
};
// The editors stay the same nodes from answer to answer: making them anew would take the focus, and undo.
const drawTemplateEditors = (_state, host, bench) => {
  if (!bench.templateFrame) bench.templateFrame = el('div', 'ti-tpls');
  const frame = bench.templateFrame, nodes = bench.heads.map((head) => head.editor.node);
  if (frame.parentNode !== host || host.childNodes.length !== 1) host.replaceChildren(frame);
  if (nodes.length !== frame.childNodes.length || nodes.some((node, k) => frame.childNodes[k] !== node)) frame.replaceChildren(...nodes);
  for (const head of bench.heads) head.drawEditor();
};

VIEW_MODELS.template = {
  gutter: 44, model: templateModel,
  get panel() { return TEMPLATE_VIEW.editing ? drawTemplateEditors : undefined; },
  switches: (bench, host) => {
    const node = button('ti-btn ti-editswitch', t('edit_templates'), () => { templateEditing(bench, !TEMPLATE_VIEW.editing); bench.root.querySelector('.ti-editswitch').focus(); });
    node.setAttribute('aria-pressed', TEMPLATE_VIEW.editing);
    host.append(node);
  },
  legend: (bench, item) => {
    const known = bench.state.panes.some((pane) => pane.template && pane.template.lines_code && pane.template.lines_code.length);
    if (!TEMPLATE_VIEW.editing) item('ti-ranmark', t('lines_that_wrote'));
    if (known) { item(TEMPLATE_VIEW.editing ? 'ti-ranmark' : 'ti-execmark', t(TEMPLATE_VIEW.editing ? 'lines_that_ran' : 'lines_that_only_ran')); item('ti-idlemark', t('lines_that_did_not_run')); item('ti-dim', t('lines_no_code')); }
  },
};
