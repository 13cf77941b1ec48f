"""Numbers that several advantages share."""
