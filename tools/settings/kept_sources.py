"""Keep sources from hosts on this disk by sha256, and remember which files of an engine mattered."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tools.artifacts import ArtifactStore

_MOST_PATHS: Final = 160
_MOST_FILES: Final = 1500
_MOST_DIGESTS: Final = 6
"""Versions of one file that are named as known to a host."""
START: Final[Mapping[str, tuple[str, ...]]] = {
    "sglang": (
        "version.py",
        "_version.py",
        "srt/server_args.py",
        "srt/server_args_config_parser.py",
        "srt/environ.py",
        "srt/arg_groups/**",
        "srt/configs/*.py",
        "srt/connector/*.py",
        "srt/connector/serde/*.py",
        "srt/function_call/*.py",
        "srt/hardware_backend/npu/utils.py",
        "srt/layers/quantization/*.py",
        "srt/layers/deep_gemm_wrapper/*.py",
        "srt/multimodal/internvl_utils.py",
        "srt/parser/*.py",
        "srt/platforms/*.py",
        "srt/plugins/*.py",
        "srt/runtime_context.py",
        "srt/utils.py",
        "srt/utils/*.py",
        "srt/utils/hf_transformers/*.py",
        "launch_server.py",
    ),
    "vllm": (
        "version.py",
        "_version.py",
        "engine/arg_utils.py",
        "envs.py",
        "config.py",
        "config/*.py",
        "platforms/__init__.py",
        "platforms/interface.py",
        "platforms/cuda.py",
        "usage/usage_lib.py",
        "entrypoints/openai/cli_args.py",
    ),
}
"""What is asked for the first time that an engine is looked at."""


class KeptSources:
    """Hold files by their sha256 in a folder of this machine's cache; without one, in memory alone."""

    def __init__(self, folder: Path | None) -> None:
        self._store = ArtifactStore(folder) if folder is not None else None
        self._folder = folder
        self._memory: dict[str, bytes] = {}

    def get(self, sha256: str) -> bytes | None:
        """Return the bytes of a digest, or None; what was changed on this disk counts as not there."""
        found = self._memory.get(sha256)
        if found is None and self._store is not None and len(sha256) == 64:
            with suppress(KeyError, ValueError, OSError):
                found = self._memory[sha256] = self._store.get(sha256)
        return found

    def put(self, data: bytes, sha256: str) -> None:
        """Keep bytes; a disk that is full or closed costs only the next call's time."""
        self._memory[sha256] = data
        if self._store is not None:
            with suppress(OSError):
                self._store.put(data)

    def wanted(self, engine: str) -> list[str]:
        """Return the files to ask for first: the usual ones, and those that earlier looks read."""
        start = START.get(engine, ())
        read, _ = self._index(engine)
        return [*start, *[path for path in read if not _covered(path, start)][:_MOST_PATHS]]

    def known(self, engine: str) -> list[str]:
        """Return the sha256 of files of an engine that are kept here, the newest of each file first."""
        rows = list(self._index(engine)[1].values())
        return [row[at] for at in range(_MOST_DIGESTS) for row in rows if at < len(row)]

    def remember(self, engine: str, read: Sequence[str], digests: Mapping[str, str]) -> None:
        """Note which files were read, and the sha256 of all that came along."""
        if self._folder is None or not digests:
            return
        before, old = self._index(engine)
        rows = {path: [one, *(d for d in old.get(path, []) if d != one)] for path, one in digests.items()}
        rows |= {path: row for path, row in old.items() if path not in rows}
        index = {
            "read": list(dict.fromkeys([*read, *before]))[: 2 * _MOST_PATHS],
            "digests": {path: row[:_MOST_DIGESTS] for path, row in list(rows.items())[:_MOST_FILES]},
        }
        target = self._folder / f"index-{engine}.json"
        new = target.with_name(f".{target.name}-{os.getpid()}-{threading.get_ident()}")
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.write_text(json.dumps(index))
            new.replace(target)

    def _index(self, engine: str) -> tuple[list[str], dict[str, list[str]]]:
        """Return the files that were read and the digests by path, newest first; nothing when damaged."""
        if self._folder is None:
            return [], {}
        try:
            raw = json.loads((self._folder / f"index-{engine}.json").read_text())
            read, digests = raw["read"], raw["digests"].items()
            good = {str(path): [str(one) for one in row] for path, row in digests}
            return [str(path) for path in read], good
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return [], {}


def _covered(path: str, globs: Sequence[str]) -> bool:
    for glob in globs:
        folder, star, _ = glob.partition("*")
        if path == glob or (
            star and path.startswith(folder) and ("**" in glob or "/" not in path[len(folder) :])
        ):
            return True
    return False
