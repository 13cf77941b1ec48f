"""Mathematical answers in LaTeX: read by a small grammar, bounded in cost, compared."""
