"""Results of an evaluation: figures with intervals, comparisons of models, tables and pictures."""
