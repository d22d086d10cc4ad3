"""Explain the settings of an engine from its installed source: what each is, why, and which line says so."""
