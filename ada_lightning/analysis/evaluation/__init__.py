"""What an evaluation says: figures with intervals, comparisons of models, tables and pictures."""
