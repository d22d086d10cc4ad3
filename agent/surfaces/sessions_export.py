"""Give an investigation away: its case file, or all of it as one archive, secrets masked once more."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from agent import threads
from agent.config import load_settings
from agent.errors import TranscriptError, UsageError
from agent.events import Event, event_adapter
from agent.forking import outputs_of
from agent.own_secrets import redactor
from agent.surfaces.records import case_text
from agent.transcript import OURS, mask, peek_events
from tools.contract import Redactor
from tools.display import printable

_FORMS = ("md", "json", "html")


def export(session: str, form: str, out: Path | None) -> None:
    """Write one form to a file, or to standard output."""
    settings = load_settings()
    folder = threads.find(settings, threads.named(settings, session))
    redact = redactor(settings)
    if form == "tar":
        if out is None and sys.stdout.isatty():
            raise UsageError("an archive is nothing for a terminal", do="add --out FILE")
        data = archive(folder, redact, zipped=out is not None and out.suffix in (".gz", ".tgz"))
    else:
        data = case_text(folder, form, masked_events(folder, redact)).encode("utf-8", "replace")
    if out is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with out.open("xb") as file:
            out.chmod(0o600)
            file.write(data)
    except FileExistsError as error:
        raise UsageError(f"{out} exists", do="name another file") from error
    sys.stderr.write(printable(f"  written: {out} ({len(data):,} bytes)") + "\n")


def masked_events(folder: Path, redact: Redactor) -> list[Event]:
    """Return the events of a thread, with what is known as a secret by now masked."""
    return [
        event_adapter.validate_python(mask(event.model_dump(mode="json"), redact, keep=OURS))
        for event in peek_events(folder / "transcript.jsonl")
    ]


def archive(folder: Path, redact: Redactor, *, zipped: bool) -> bytes:
    """Return the case, its transcript and the outputs that it names, as one archive."""
    events = masked_events(folder, redact)
    if not events:
        raise TranscriptError(f"{folder / 'transcript.jsonl'} is empty", do="nothing can be given away")
    moment = int(events[-1].at.timestamp())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz" if zipped else "w") as tar:
        for name, data in _members(folder, events, redact):
            entry = tarfile.TarInfo(f"{folder.name}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), moment, 0o600
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _members(folder: Path, events: list[Event], redact: Redactor) -> Iterator[tuple[str, bytes]]:
    """Yield each file; an output that is masked anew has other bytes than its digest says, which is told."""
    for form in _FORMS:
        yield f"case.{form}", case_text(folder, form, events).encode("utf-8", "replace")
    lines = "".join(f"{event.model_dump_json()}\n" for event in events)
    yield "transcript.jsonl", lines.encode("utf-8", "replace")
    masked = {}
    for digest in sorted(outputs_of(events)):
        path = folder / "artifacts" / digest
        if path.is_symlink() or not path.is_file():
            continue
        data = redact(path.read_bytes())
        if (now := hashlib.sha256(data).hexdigest()) != digest:
            masked[digest] = now
        yield f"artifacts/{digest}", data
    if masked:
        note = {"masked_anew": masked, "note": "secrets known only since were masked; these digests changed"}
        yield "masked.json", (json.dumps(note, indent=1) + "\n").encode()
