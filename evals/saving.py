"""Keep a finished thread as a recording: redacted once more, its source packed, checked before it counts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.config import Settings
from agent.errors import LeadlineError, TranscriptError, UsageError
from agent.events import Ended, Event, Started
from agent.transcript import OURS, check_order, mask, parse_lines, read_events
from evals import recordings
from evals.lab import scenario
from evals.pack import Index, PackError
from evals.packed import write_artifact, write_whole
from evals.packed_rows import Row, line_of, pack_rows
from evals.plan_digests import bound_again
from evals.quoted_source import Leak, find_leaks
from evals.recordings import About, references
from evals.source_text import package_of, package_root, package_text, place_in
from tools.artifacts import ArtifactStore
from tools.contract import Redactor
from tools.redact import redact

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
"""Names of recordings and cases."""
_PATH = re.compile(r"/(?:site|dist)-packages/([\w./-]+\.\w+)")
_TRIES = 5
_WORTH_SHARING = 4_000
"""Characters of an artifact from which later ones may refer to its lines."""


@dataclass(slots=True)
class Kept:
    """Hold a thread as it will come back: its lines, its events, its outputs by sha256."""

    rows: list[Row]
    events: list[Event]
    artifacts: dict[str, bytes]
    places: set[str] = field(default_factory=set)


def save(
    thread: Path,
    name: str,
    *,
    case: str,
    says: str,
    how: str = "",
    expect: Mapping[str, Any] | None = None,
    folder: Path = recordings.FOLDER,
    cache_dir: Path | None = None,
    clean: Redactor = redact,
) -> Path:
    """Keep the thread of a folder (``transcript.jsonl`` and ``artifacts/``) under a name; return its file.

    ``clean`` masks everything but the source of packages. Raises `UsageError` or `TranscriptError` when it
    cannot be kept whole and free of source.
    """
    if not NAME.fullmatch(name):
        raise UsageError(f"not a name: {name!r}", do="write lower-case letters, digits and hyphens")
    cache_dir = cache_dir or Settings().cache_dir
    kept = read_thread(thread, clean)
    wanted = _about(kept, case=case, says=says, how=how, expect=expect or {})
    path = folder / f"{name}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    for _ in range(_TRIES):
        files = _write(path, kept, cache_dir)
        leaks = find_leaks(files, _roots(kept, cache_dir), first=200)
        more = {leak.place for leak in leaks} - kept.places
        kept.places |= more
        if not more:
            break
    if leaks:
        path.unlink()
        raise _leaking(path, leaks)
    packages = sorted({"@".join(found) for place in kept.places if (found := package_of(place))})
    text = recordings.dump_about(wanted.model_copy(update={"packages": packages}))
    write_whole(path.with_suffix(".yaml"), text.encode())
    _verify(path, kept, cache_dir)
    return path


def read_thread(thread: Path, clean: Redactor = redact) -> Kept:
    """Read a finished thread, cleaned; raise an error that says why it cannot be kept."""
    path = thread / "transcript.jsonl" if thread.is_dir() else thread
    check_order(read_events(path), path)
    store = ArtifactStore(path.parent / "artifacts")
    rows = [_clean(json.loads(line), clean) for line in path.read_bytes().splitlines()]
    artifacts: dict[str, bytes] = {}
    renamed: dict[str, str] = {}
    for event in read_events(path):
        for where, ref in references(event):
            try:
                data = (redact if ref.package else clean)(store.get(ref.sha256))
            except (KeyError, ValueError) as error:
                raise TranscriptError(
                    f"{path}:{event.seq + 1}: {where}: artifact {ref.sha256[:12]} ({ref.handle}) is missing"
                    " or was changed",
                    do="keep the artifacts/ folder of the thread",
                ) from error
            digest = hashlib.sha256(data).hexdigest()
            artifacts[digest] = data
            if digest != ref.sha256:
                renamed[ref.sha256] = digest
    rows = [_renamed(row, renamed, artifacts) for row in rows] if renamed else rows
    rows = bound_again(rows)
    events = list(parse_lines([line_of(row) for row in rows], path))
    if not events or not any(isinstance(event, Ended) for event in events):
        raise UsageError(f"{path}: the investigation has not ended", do="finish it, then keep it")
    kept = Kept(rows, events, artifacts)
    kept.places = set(_places(kept))
    return kept


def _clean(row: Row, clean: Redactor) -> Row:
    """Return an event redacted once more, without the name of the machine that it was recorded on."""
    masked: Row = mask(row, clean, keep=OURS)
    if isinstance(ref := masked.get("artifact"), dict):  # `OURS` means the handles that citations hold
        masked = masked | {"artifact": mask(ref, clean, keep=OURS - {"artifact"})}
    if masked["type"] == "plan_made" and clean is not redact:
        masked = masked | {"plan": masked["plan"] | {"host_key": None}}  # it names the machine as well
    return masked | {"process": "recorded"} if masked["type"] == "resumed" else masked


def _renamed(row: Row, renamed: Mapping[str, str], artifacts: Mapping[str, bytes]) -> Row:
    """Return an event that names artifacts by what they became when they were redacted again."""
    text = json.dumps(row, ensure_ascii=False)
    for old, new in renamed.items():
        text = text.replace(old, new).replace(old[:12], new[:12])
    row = json.loads(text)
    for ref in [row.get("artifact"), *row.get("artifacts", ())]:
        if isinstance(ref, dict) and ref["sha256"] in renamed.values():
            ref["size"] = len(artifacts[ref["sha256"]])
    return row


def _places(kept: Kept) -> Iterable[str]:
    """Yield the files of packages that a thread names: by its artifacts, and in what a model saw."""
    packages: dict[str, tuple[str, str]] = {}
    for event in kept.events:
        for _, ref in references(event):
            if (
                ref.package
                and ref.version
                and ref.path
                and (place := place_in(ref.package, ref.version, ref.path))
            ):
                packages[place.partition("/")[2].split("/")[0]] = (ref.package, ref.version)
                yield place
    packages |= {name: (name, version) for name, version in _pinned(kept.events[0])}
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in kept.rows)
    text += "\n".join(data.decode("utf-8", "replace") for data in kept.artifacts.values())
    for path in set(_PATH.findall(text)):
        found = packages.get(path.split("/")[0])
        if found is not None:
            yield f"{found[0]}@{found[1]}/{path}"


def _pinned(started: Event) -> list[tuple[str, str]]:
    """Return the packages that the scenario of a thread pins."""
    assert isinstance(started, Started)  # the reader accepts nothing else first
    if started.scenario is None:
        return []
    try:
        package = scenario.load(started.scenario).package
    except LeadlineError:
        return []
    return [(package.name, package.version)] if package else []


def _roots(kept: Kept, cache_dir: Path) -> dict[str, Path]:
    """Return ``NAME@VERSION`` to folder of every package whose source may stand in a thread."""
    packages = {found for place in kept.places if (found := package_of(place))} | set(_pinned(kept.events[0]))
    return {f"{name}@{version}": package_root(name, version, cache_dir) for name, version in packages}


def _write(path: Path, kept: Kept, cache_dir: Path) -> list[Path]:
    """Write transcript and artifacts packed, and return their files."""
    index = Index()
    for place in sorted(kept.places):
        try:
            index.add(package_text(place, cache_dir))
        except PackError:
            continue  # A path that was mentioned need not be one of the release.
    written = b"".join(line + b"\n" for line in pack_rows(kept.rows, index))
    root = path.parent / recordings.ARTIFACTS
    files = [path]
    for data in sorted(kept.artifacts.values(), key=lambda data: (-len(data), data)):
        file, text = write_artifact(root, data, index)
        files.append(file)
        if len(text.text) >= _WORTH_SHARING and file.suffix != ".json":
            index.add(text)
    write_whole(path, written)
    return files


def _about(kept: Kept, *, case: str, says: str, how: str, expect: Mapping[str, Any]) -> About:
    started = kept.events[0]
    assert isinstance(started, Started)  # the reader accepts nothing else first
    file = scenario.FOLDER / f"{started.scenario}.yaml"
    ends = [event.outcome for event in kept.events if isinstance(event, Ended)]
    return About.model_validate(
        {
            "case": case,
            "says": says,
            "expect": dict(expect),
            "recorded": started.recorded,
            "how": how,
            "scenario": started.scenario,
            "scenario_sha256": hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None,
            "product": started.product,
            "at": started.at,
            "mode": started.mode,
            "outcome": ends[-1],
            "events": len(kept.events),
        }
    )


def _verify(path: Path, kept: Kept, cache_dir: Path) -> None:
    """Read everything back and compare it with what was to be kept."""
    back = list(recordings.lines(path.stem, path.parent, cache_dir))
    store = recordings.store_of(path.parent, cache_dir)
    for number, (row, line) in enumerate(zip(kept.rows, back, strict=True), 1):
        if line_of(row) != line:
            raise TranscriptError(f"{path}:{number}: line: it does not come back as it was recorded")
    for digest, data in kept.artifacts.items():
        if store.get(digest) != data:
            raise TranscriptError(f"{store.path(digest)}: it does not come back as it was recorded")


def _leaking(path: Path, leaks: list[Leak]) -> UsageError:
    return UsageError(f"{path}: not kept: {leaks[0]}", do="see `leadline transcripts check`")
