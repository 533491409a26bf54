// Shapes, types and the first and last values of what the model receives.

const tensorLines = (pane) => pane.tensors.flatMap((tensor) => [
  { parts: [['ti-key', tensor.name], ['', '  ' + tensor.dtype + '[' + tensor.shape.join(', ') + ']'], ['ti-dim', '  ' + tensor.note]] },
  { cls: 'ti-indent', parts: [['', tensor.sample]] },
  { parts: [['', ' ']] },
]);

const tensorText = (pane) => pane.tensors.map(({ name, dtype, shape, note, sample }) => name + ' ' + dtype + '[' + shape.join(', ') + '] ' + note + '\n' + sample).join('\n');

VIEW_MODELS.tensors = {
  gutter: 12, model: (state, cols) => sideBySide(state, cols, tensorLines, { gutterWidth: 12 }),
  copies: { key: 'copy_text', text: (bench, q) => tensorText(bench.state.panes[q]) },
};
