"""Simulated hosts reached over real SSH."""
