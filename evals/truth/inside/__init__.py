"""Run the engine's own argument code, in the separate environment: standard library, torch and the engine."""
