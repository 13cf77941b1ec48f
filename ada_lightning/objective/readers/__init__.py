"""Readers of trainers' configurations: one file a trainer, a table of its keys and what they make of an update."""
