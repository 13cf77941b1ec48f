"""Parts of ``research.studies.gradient_variance``: exact sums over stopping points, bounds, score moments."""
