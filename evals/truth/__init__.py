"""Record what the engines' own argument code makes of launch lines, and compare our evaluation with it."""
