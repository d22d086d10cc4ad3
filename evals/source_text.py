"""Texts that recordings refer to: files of released packages, fetched once, and artifacts stored beside."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from evals.lab.package import PackageError, fetch
from evals.pack import Lookup, PackError, Text

ARTIFACT = "artifact/"
"""Begins the place of a stored artifact; every other place is ``PACKAGE@VERSION/PATH``."""

_PLACE = re.compile(r"([A-Za-z0-9._-]+)@([A-Za-z0-9.+!_-]+)/(.+)")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/(.+)")


def place_in(package: str, version: str, path: str) -> str | None:
    """Return the place of a file of an installed package; None for a path outside of any."""
    found = _INSTALLED.search(path)
    return f"{package}@{version}/{found[1]}" if found else None


def package_of(place: str) -> tuple[str, str] | None:
    """Return name and version of the package that a place is in; None for an artifact."""
    found = None if place.startswith(ARTIFACT) else _PLACE.fullmatch(place)
    return (found[1], found[2]) if found else None


def lookup(cache_dir: Path, artifact: Callable[[str], str]) -> Lookup:
    """Return what finds the text of a place; ``artifact`` gives that of a stored one by its sha256."""

    @lru_cache(maxsize=4)
    def stored(place: str) -> Text:
        return Text(place, artifact(place.removeprefix(ARTIFACT)))

    def find(place: str) -> Text:
        return stored(place) if place.startswith(ARTIFACT) else package_text(place, cache_dir)

    return find


@lru_cache(maxsize=256)
def package_text(place: str, cache_dir: Path) -> Text:
    """Return the text of a package's file, fetching the package the first time; raise `PackError`."""
    found = _PLACE.fullmatch(place)
    if found is None or ".." in found[3].split("/"):
        raise PackError(f"no such place: {place}")
    path = package_root(found[1], found[2], cache_dir) / found[3]
    try:
        return Text(place, decode(path.read_bytes()))
    except OSError as error:
        raise PackError(f"{found[1]} {found[2]} has no {found[3]}: {error.strerror}") from error


@lru_cache(maxsize=32)
def package_root(name: str, version: str, cache_dir: Path) -> Path:
    """Return the folder of a package's source; raise `PackError` when it cannot be had."""
    try:
        return fetch(name, version, cache_dir)
    except PackageError as error:
        raise PackError(f"the source of {name} {version} is needed: {error}") from error


def decode(data: bytes) -> str:
    """Return bytes as text that `encode` turns into the same bytes, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes that `decode` made a text of."""
    return text.encode("utf-8", "surrogateescape")
