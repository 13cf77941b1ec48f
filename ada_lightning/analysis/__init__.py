"""Judges runs and models: metrics, evaluation, reports, and the statement of what a run optimises."""
