"""Published methods that are here for completeness: one file a paper, with its parts, its options and its recipes."""
