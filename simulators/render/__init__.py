"""Pictures of a World in a State, one file a renderer."""
