"""The investigation: state machine, ledger, verifier, models and surfaces."""
