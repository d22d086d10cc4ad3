"""Guard the fixed top level and the names it takes in an environment."""

import importlib.metadata
from pathlib import Path

TOP_LEVEL = {"agent", "tools", "prompts", "evals"}
ROOT = Path(__file__).parent.parent


def test_top_level_folders_are_there() -> None:
    assert {*TOP_LEVEL, "tests", "transcripts"} <= {path.name for path in ROOT.iterdir() if path.is_dir()}


def test_no_dependency_ships_one_of_our_package_names() -> None:
    for distribution in importlib.metadata.distributions():
        if distribution.metadata["Name"] == "leadline":
            continue
        names = {Path(file).parts[0] for file in distribution.files or [] if Path(file).parts}
        assert not names & TOP_LEVEL, distribution.metadata["Name"]
