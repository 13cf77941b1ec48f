"""What the programs do: train, evaluate, prepare, report."""
