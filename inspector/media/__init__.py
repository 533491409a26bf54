"""Images of a request: who they are, where they stand in the prompt, and how many positions they take."""
