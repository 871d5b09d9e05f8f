"""Physics of chance and pictures of it. Knows nothing of labels, references or judges."""
