"""The policy and its update: losses, attention, models, what an update may do."""
