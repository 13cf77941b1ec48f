"""Graders side by side on answers that a person judged: ``python -m research.benchmarks.grading``."""
