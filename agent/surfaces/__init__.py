"""The ways people reach a session: command line and terminal."""
