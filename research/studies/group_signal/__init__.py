"""Whether a prompt's responses hold a signal, and what that costs: exact sums, closed forms, unbiased from counts."""
