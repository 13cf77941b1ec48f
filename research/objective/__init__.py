"""Holds the readers of ``ada objective`` against the trainers' own functions."""
