"""Check recordings: readable, whole, as they were recorded, and free of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent.errors import LeadlineError
from evals import case, recordings
from evals.pack import PackError
from evals.packed import PackedStore
from evals.quoted_source import find_leaks
from evals.source_text import package_root
from evals.whole import check_origin

Progress = Callable[[str], None]


def problems(
    wanted: Sequence[str],
    folder: Path = recordings.FOLDER,
    cache_dir: Path | None = None,
    progress: Progress = lambda text: None,
) -> Iterator[str]:
    """Yield in a line each what is wrong with the named recordings, or with all and the artifacts of all."""
    store = recordings.store_of(folder, cache_dir)
    used: set[str] = set()
    sound: list[str] = []
    for name in wanted or recordings.names(folder):
        progress(f"reading {name}")
        try:
            used |= _read(name, folder, store)
            sound.append(name)
        except LeadlineError as error:
            yield str(error)
    if not wanted:
        yield from _strays(folder, store, used)
    progress("looking for source of packages")
    yield from _leaks(sound, folder, store, used)


def _read(name: str, folder: Path, store: PackedStore) -> set[str]:
    """Read a recording whole; return the artifacts that it needs."""
    path = recordings.path_of(name, folder)
    about = recordings.about(name, folder)
    case.load(about.case)
    recording = recordings.load(name, folder, store.cache_dir)
    count = path.read_bytes().count(b"\n")
    if count != about.events:
        raise LeadlineError(
            f"{path}:{count}: line: the transcript has {count} events, {about.events} were kept"
        )
    check_origin(about, recording, path)
    used: set[str] = set()
    for event in recording.events:
        for field, ref in recordings.references(event):
            try:
                recording.store.get(ref.sha256)
            except (KeyError, ValueError) as error:
                raise LeadlineError(f"{path}:{event.seq + 1}: {field}: {error}") from error
            used.add(ref.sha256)
    return used


def _strays(folder: Path, store: PackedStore, used: set[str]) -> Iterator[str]:
    """Name files that nothing needs: a recording without its transcript, an artifact of none."""
    used = used | {digest for digest in used for digest in store.needs(digest)}
    for path in sorted(store.root.glob("*")):
        if path.name.partition(".")[0] not in used:
            yield f"{path}: no recording needs it; remove it"
    for path in sorted(folder.glob("*.yaml")):
        if not path.with_suffix(".jsonl").is_file():
            yield f"{path}: there is no {path.stem}.jsonl"


def _leaks(names: Sequence[str], folder: Path, store: PackedStore, used: set[str]) -> Iterator[str]:
    packages = {one for name in names for one in recordings.about(name, folder).packages}
    roots: dict[str, Path] = {}
    for package in sorted(packages):
        try:
            roots[package] = package_root(*package.split("@"), store.cache_dir)
        except PackError as error:
            yield f"not checked for source: {error}"
    files = [recordings.path_of(name, folder) for name in names]
    files += [folder / f"{name}.yaml" for name in names]
    files += [store.path(digest) for digest in sorted(used)]
    yield from (str(leak) for leak in find_leaks(files, roots))
