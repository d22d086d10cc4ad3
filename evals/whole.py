"""Tell whether what a recording needs is still as it was recorded."""

from __future__ import annotations

from pathlib import Path

from agent.errors import TranscriptError
from agent.models.replay import Recording
from evals.recordings import About, references

_TOLD = ("recorded", "scenario", "mode", "product", "at")
"""What both a transcript and the file beside it tell."""


def check_origin(about: About, recording: Recording, path: Path) -> None:
    """Raise `TranscriptError` when the file beside a transcript tells another origin than the transcript."""
    for name in _TOLD:
        told, is_so = getattr(about, name), getattr(recording.started, name)
        if told != is_so:
            raise TranscriptError(
                f"{path.with_suffix('.yaml')}: {name}: {told}, but the transcript says {is_so}",
                do="fetch both files again",
            )


def check_whole(recording: Recording, path: Path) -> None:
    """Raise `TranscriptError` with line, field and digest for an artifact that is missing or changed."""
    for event in recording.events:
        for field, ref in references(event):
            try:
                recording.store.get(ref.sha256)
            except (KeyError, ValueError) as error:
                said = f"artifact {ref.sha256[:12]} is missing" if isinstance(error, KeyError) else str(error)
                raise TranscriptError(
                    f"{path}:{event.seq + 1}: {field}: {said}", do="fetch the folder again"
                ) from error
