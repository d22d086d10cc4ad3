"""Turn the file behind ``--config`` into the words that engines read it as."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any


def config_words(path: str, data: bytes | None, spellings: Container[str]) -> list[str]:
    """Return the options that a YAML file stands for; raise `ValueError` where the engine would refuse it."""
    import yaml

    if path.rpartition(".")[2].lower() not in ("yaml", "yml"):
        raise ValueError(f"--config takes a file that ends in .yaml or .yml, not {path}")
    if data is None:
        raise ValueError(f"--config names {path}, which does not exist")
    try:
        found = yaml.load(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())[:160]}") from error
    if found is None:
        return []
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no mapping of options to values")
    words: list[str] = []
    for key, value in found.items():
        words += _words(f"--{key}", value, spellings)
    return words


def _words(flag: str, value: Any, spellings: Container[str]) -> list[str]:
    if isinstance(value, bool):
        negative = flag.replace("--", "--no-", 1)
        return [flag] if value else [negative] if negative in spellings else []
    if isinstance(value, list):
        return [flag, *map(str, value)] if value else []
    return [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
