"""Benchmarks and studies: what the figures in docs/ come from."""
