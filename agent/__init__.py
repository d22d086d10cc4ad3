"""The investigation: state machine, ledger, verifier, models and surfaces."""

__version__ = "0.1.0"
