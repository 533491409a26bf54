// The token flow of both panes.

VIEW_MODELS.tokens = { flow: true, gutter: 54, model: (state, cols) => tokensModel(state, cols, state.colour) };
