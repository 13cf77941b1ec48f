"""Side-by-side measurements that anyone can run: ``python -m research.benchmarks.<name>``."""
