"""Parts of ``python -m studies.gradient_variance``: exact sums over stopping points, bounds, measured score moments."""
