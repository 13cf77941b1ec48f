"""Numbers that several losses share."""
