"""Methods of papers, one file each: their parts, the words they are chosen by, and the recipe that joins them."""
