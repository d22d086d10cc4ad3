"""Recordings in ``transcripts/``: what there is, what each is kept for, its events as they were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.config import Settings
from agent.errors import TranscriptError, UsageError
from agent.events import Event, Judged, Measured, ToolFinished
from agent.models.replay import Recording
from agent.transcript import not_collecting, parse_lines
from evals.case import Scorer
from evals.nearest import hint
from evals.packed import PackedStore
from evals.packed_rows import Row, line_of, unpack_rows
from tools.contract import ArtifactRef
from tools.wrong_fields import first_wrong

if TYPE_CHECKING:
    from evals.results import Score

FOLDER = Path(__file__).parent.parent / "transcripts"
ARTIFACTS = "artifacts"

Bounds = Annotated[
    float | tuple[float, float], Field(description="The score itself, or the lowest and the highest.")
]


class About(BaseModel):
    """Say what a recording is kept for, and where it comes from: the YAML file beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str = Field(description="The case that it is rated against.")
    says: str = Field(description="Why it is kept, in a sentence.")
    expect: dict[Scorer | Literal["success"], Bounds] = Field(default_factory=dict)
    recorded: str = Field(
        description="playbook | openai:MODEL | scripted:FILE | baseline:MODEL | demonstration"
    )
    how: str = Field(default="", description="The command, or the script, that made it.")
    scenario: str | None = None
    scenario_sha256: str | None = Field(default=None, description="Of the scenario's file at that time.")
    product: str
    at: datetime
    mode: str
    outcome: str | None = None
    packages: list[str] = Field(default_factory=list, description="NAME@VERSION of the source it refers to.")
    events: int = Field(description="Lines of the transcript.")


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of the recordings."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def about(name: str, folder: Path = FOLDER) -> About:
    """Return what a recording is kept for; raise `UsageError` naming file and field of what is wrong."""
    import yaml

    from prompts import strict_yaml

    path = path_of(name, folder).with_suffix(".yaml")
    try:
        raw, node = strict_yaml.read(path.read_text(encoding="utf-8"))
        return About.model_validate(raw)
    except strict_yaml.RepeatedKey as error:
        raise UsageError(f"{path}:{error.line}: {error}") from error
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}", do="write it, see transcripts/README.md"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        wrong = first_wrong(error, "file", About)
        line = strict_yaml.line_in(node, wrong.place)
        raise UsageError(f"{path}:{line}: {wrong.text}", do=wrong.do) from error


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Return the file of a recording that exists."""
    path = folder / f"{name}.jsonl"
    if path.parent == folder and (path.is_dir() or path.is_symlink()) and not path.is_file():
        what = "is a folder" if path.is_dir() else "leads nowhere"
        raise UsageError(f"{path}: {what}", do="put a transcript there, or remove it")
    if path.parent != folder or not path.is_file():
        known = names(folder)
        do = hint(name, known, "leadline transcripts list") if known else f"there is none in {folder}"
        raise UsageError(f"no recording {name!r}", do=do)
    return path


def lines(name: str, folder: Path = FOLDER, cache_dir: Path | None = None) -> Iterator[bytes]:
    """Yield the lines of a recording's transcript as they were recorded, without their ends."""
    yield from map(line_of, rows(name, folder, cache_dir))


def rows(name: str, folder: Path = FOLDER, cache_dir: Path | None = None) -> Iterator[Row]:
    """Yield what stands in each line of a recording's transcript."""
    path = path_of(name, folder)
    raw = path.read_bytes()
    if not raw:
        raise TranscriptError(f"{path}:1: line: the file is empty", do="fetch it again")
    if not raw.endswith(b"\n"):
        count = raw.count(b"\n") + 1
        raise TranscriptError(f"{path}:{count}: line: the last line is torn", do="fetch the file again")
    yield from unpack_rows(raw[:-1].split(b"\n"), store_of(folder, cache_dir).lookup, path)


def store_of(folder: Path = FOLDER, cache_dir: Path | None = None) -> PackedStore:
    """Return the artifacts that the recordings of a folder share."""
    return PackedStore(folder / ARTIFACTS, cache_dir or _cache_dir())


def load(name: str, folder: Path = FOLDER, cache_dir: Path | None = None) -> Recording:
    """Read a recording; raise `TranscriptError` naming file, line and field of what is wrong.

    Artifacts are read, and the source that they quote is filled in, only when they are asked for.
    """
    path = path_of(name, folder)
    store = store_of(folder, cache_dir)
    with not_collecting():
        events = list(parse_lines(rows(name, folder, cache_dir), path))
        check_artifacts(events, store, path)
        return Recording.of(events, store, path)


def check_artifacts(events: list[Event], store: PackedStore, path: Path) -> None:
    """Raise `TranscriptError` for the first artifact that is not there."""
    there = store.digests()
    for event in events:
        for field, ref in references(event):
            if ref.sha256 not in there:
                raise TranscriptError(
                    f"{path}:{event.seq + 1}: {field}: no artifact {ref.sha256[:12]} ({ref.handle})",
                    do=f"fetch {store.root} again",
                )


def references(event: Event) -> Iterator[tuple[str, ArtifactRef]]:
    """Yield the artifacts that an event brings, with the field of each."""
    if isinstance(event, Measured | Judged):
        yield "artifact.sha256", event.artifact
    elif isinstance(event, ToolFinished):
        for place, ref in enumerate(event.artifacts):
            yield f"artifacts.{place}.sha256", ref


def unpack_to(name: str, out: Path, folder: Path = FOLDER, cache_dir: Path | None = None) -> int:
    """Write a recording as a thread's folder holds it; return the count of events."""
    from tools.artifacts import ArtifactStore

    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty", do="name a new folder")
    recording = load(name, folder, cache_dir)
    out.mkdir(parents=True, exist_ok=True)
    plain = ArtifactStore(out / ARTIFACTS)
    plain.root.mkdir(exist_ok=True)
    whole = list(lines(name, folder, cache_dir))
    for event in parse_lines(whole, out):
        for _, ref in references(event):
            plain.put(recording.store.get(ref.sha256))
    (out / "transcript.jsonl").write_bytes(b"".join(line + b"\n" for line in whole))
    return len(whole)


def misses(wanted: About, score: Score) -> list[str]:
    """Return in a sentence each how a score is out of the bounds that are expected of it."""
    found = []
    for name, bounds in wanted.expect.items():
        value = float(score.success) if name == "success" else score.scores.get(name)
        low, high = bounds if isinstance(bounds, tuple) else (bounds, bounds)
        if value is None or not low - 1e-9 <= value <= high + 1e-9:
            due = f"{low:g}" if low == high else f"{low:g} to {high:g}"
            found.append(f"{name} is {'not rated' if value is None else f'{value:g}'}, expected {due}")
    return found


def save(thread: Path, name: str, **how: Any) -> Path:
    """Keep a finished thread as a recording; see `evals.saving.save`."""
    from evals.saving import save as keep

    return keep(thread, name, **how)


def dump_about(wanted: About) -> str:
    """Return the YAML of what a recording is kept for."""
    import yaml

    data: Mapping[str, Any] = wanted.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=100)


@cache
def _cache_dir() -> Path:
    return Settings().cache_dir
