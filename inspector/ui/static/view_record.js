// The record of each pane as JSON text; asked for when the view is opened.

const recordLines = (text) => text.split('\n').map((line, k) => ({ gutter: String(k + 1), parts: [['', line || ' ']] }));

VIEW_MODELS.record = { gutter: 54, model: (state, cols) => linesModel(state.records.map(recordLines), cols, {}) };
