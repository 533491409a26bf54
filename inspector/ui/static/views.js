// What every view's file shares. Each view_<id>.js puts one entry into VIEW_MODELS:
// {model: (state, cols) => model of the grid} or {panel: (state, host, bench) => draws}; `flow`: its cells carry bytes.
// Optional: opened(bench) when its tab is opened, returned(bench) when a jump comes back to it (true: it took the focus),
// arrived(bench) when a new answer is there while it is open (`ofFailed`: also when no pane has tokens); and for the
// bar above it: switches(bench, host), colours: names of token colourings, steps: has differences to step through,
// copies: {key, text(bench, q)}, exports (see exports.js), tools(bench, host, button), legend(bench, item(class, text), host).

const VIEW_MODELS = {};
const sideBySide = (state, cols, linesOf, extra) => linesModel(state.panes.map(linesOf), cols, extra);
const noLines = (key) => [{ cls: 'ti-note', parts: [['', t(key)]] }];
