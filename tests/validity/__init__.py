"""Published and exact facts that a device of ours is held to, each with its citation."""
