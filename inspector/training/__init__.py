"""What a batch, a loss and a prefix cache see of encoded conversations: pure functions of encodings, no model is run."""
