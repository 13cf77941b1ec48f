"""Methods of papers, one file a paper: what only they use, their options, their recipes, and where they depart."""
