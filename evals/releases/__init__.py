"""Count the settings that are found in every release of an engine against what the release itself shows."""
