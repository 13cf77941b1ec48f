"""Many methods, tuned alike, on a model so small that a run takes minutes."""
