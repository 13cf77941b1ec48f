"""Runs under faults, and whether they are what they would have been without."""
