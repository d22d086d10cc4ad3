"""Tell where code runs while settings are still being worked out from where it serves with them."""

from __future__ import annotations

from typing import Final

_RESOLVING: Final = (
    "srt/server_args.py",
    "srt/arg_groups/",
    "srt/platforms/",
    "srt/hardware_backend/",
    "srt/configs/",
    "srt/utils/",
    "config/",
    "config.py",
    "engine/arg_utils.py",
    "platforms/",
    "plugins/",
    "transformers_utils/",
    "model_executor/models/config.py",
)


def resolving(path: str) -> bool:
    """Tell whether a file's code runs before the settings in force at the end are known."""
    return path.startswith(_RESOLVING)
