"""Artifacts of recordings on disk: packed, and shared by all of them under their sha256."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Set
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent.errors import TranscriptError
from evals.pack import Index, Lookup, PackError, Text, loads, pack_string, place_of, refs
from evals.source_text import ARTIFACT, decode, encode, lookup
from tools.artifacts import ArtifactStore

FORMS = ("", ".json", ".gz", ".json.gz")
"""Endings of an artifact's file: as it is, packed, and either compressed."""

PLAIN_BYTES = 64 << 10
"""Larger files are compressed: whole logs of a host, hardly ever read by people."""


class PackedStore(ArtifactStore):
    """Read artifacts that were stored packed, each checked against its sha256."""

    def __init__(self, root: Path, cache_dir: Path) -> None:
        super().__init__(root)
        self.cache_dir = cache_dir
        self.lookup: Lookup = lookup(cache_dir, self._text)

    def get(self, sha256: str) -> bytes:
        """Return the bytes of a digest; raise `KeyError` when absent, `ValueError` when changed on disk.

        Raises `TranscriptError` when the source that it refers to is not to be had.
        """
        file = self.path(sha256)
        try:
            data = file.read_bytes()
        except FileNotFoundError as error:
            raise KeyError(sha256) from error
        try:
            data = gzip.decompress(data) if file.suffix == ".gz" else data
            if ".json" in file.suffixes:
                data = encode(loads(data, self.lookup))
        except PackError as error:
            raise TranscriptError(f"{file}: {error}") from error
        except (OSError, EOFError, ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"artifact {sha256[:12]} was changed on disk: {error}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"artifact {sha256[:12]} was changed on disk")
        return data

    def put(self, data: bytes) -> str:
        """Refuse: recordings are only read here; `write_artifact` stores them."""
        raise PermissionError(f"{self.root} holds recordings, which are only read")

    def path(self, sha256: str) -> Path:
        """Return the file of an artifact, in whichever form it is there."""
        plain = super().path(sha256)
        name = self._files().get(sha256)
        if name is not None:
            return plain.with_name(name)
        files = (plain.with_name(sha256 + form) for form in FORMS)
        return next((file for file in files if file.is_file()), plain)

    def digests(self) -> Set[str]:
        """Return the digests of what is there."""
        return self._files().keys()

    def _files(self) -> Mapping[str, str]:
        try:
            return _files(self.root, self.root.stat().st_mtime_ns)
        except FileNotFoundError:
            return {}

    def needs(self, sha256: str) -> set[str]:
        """Return the digests of the artifacts whose lines an artifact refers to, and theirs."""
        file = self.path(sha256)
        if ".json" not in file.suffixes:
            return set()
        data = file.read_bytes()
        packed = json.loads(gzip.decompress(data) if file.suffix == ".gz" else data)
        found = {
            place.removeprefix(ARTIFACT)
            for ref in refs(packed)
            if (place := place_of(ref)).startswith(ARTIFACT)
        }
        return found.union(*(self.needs(other) for other in found))

    def _text(self, sha256: str) -> str:
        try:
            return _artifact_text(self, sha256)
        except (KeyError, ValueError) as error:
            raise PackError(f"artifact {sha256[:12]}, which it refers to, is missing or changed") from error

    def __hash__(self) -> int:
        return hash((self.root, self.cache_dir))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedStore) and (self.root, self.cache_dir) == (other.root, other.cache_dir)


@lru_cache(maxsize=4)
def _files(root: Path, changed_ns: int) -> dict[str, str]:
    """Return the file of each digest; of several, the one whose form comes first."""
    there: dict[str, str] = {}
    for path in sorted(root.iterdir(), key=lambda path: _form(path.name), reverse=True):
        there[path.name.partition(".")[0]] = path.name
    return there


def _form(name: str) -> int:
    ending = name[name.find(".") :] if "." in name else ""
    return FORMS.index(ending) if ending in FORMS else len(FORMS)


@lru_cache(maxsize=4)
def _artifact_text(store: PackedStore, sha256: str) -> str:
    return decode(store.get(sha256))


def write_artifact(root: Path, data: bytes, index: Index) -> tuple[Path, Text]:
    """Store bytes packed; return their file, and their text for later artifacts to refer to."""
    sha256 = hashlib.sha256(data).hexdigest()
    text = decode(data)
    packed = _without_json(pack_string(text, index))
    form, content = "", data
    if not isinstance(packed, str):
        form, content = ".json", (json.dumps(packed, indent=0) + "\n").encode()
    if len(content) > PLAIN_BYTES:
        form, content = form + ".gz", gzip.compress(content, 9, mtime=0)
    root.mkdir(parents=True, exist_ok=True)
    for other in FORMS:
        if other != form:
            (root / f"{sha256}{other}").unlink(missing_ok=True)
    target = root / f"{sha256}{form}"
    write_whole(target, content)
    return target, Text(ARTIFACT + sha256, text)


def _without_json(packed: Any) -> Any:
    """Leave JSON that quotes no source as it was printed."""
    return packed if any(True for _ in refs(packed)) else ""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step."""
    new = path.with_name(f".new-{path.name}")
    new.write_bytes(content)
    new.replace(path)
