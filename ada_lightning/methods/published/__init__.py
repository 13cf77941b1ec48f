"""Methods of papers, a file each: their parts, the words that choose them, and the recipe that puts them together."""
