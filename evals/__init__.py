"""Labs, cases and scorers."""
