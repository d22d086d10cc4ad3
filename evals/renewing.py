"""Make recordings again with the command that made them, and keep what still is what each is kept for."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent.errors import LeadlineError, UsageError
from agent.events import Ended
from agent.models.replay import Recording
from evals import case, recordings
from evals.recordings import About
from evals.score import score
from tools.contract import ArtifactRef

_LIMIT_S = 1800.0
_SYMPTOM = "SYMPTOM"
"""Stands in a command for the symptom of its recording."""


def renewable(folder: Path = recordings.FOLDER) -> list[str]:
    """Return the recordings that the product made: one of another agent shows what that did then."""
    wanted = ("playbook", "demonstration")
    return [name for name in recordings.names(folder) if recordings.about(name, folder).recorded in wanted]


def renew(
    name: str, folder: Path = recordings.FOLDER, say: Callable[[str], None] = lambda text: None
) -> Path:
    """Run the command of a recording, and keep the thread that it makes under the same name.

    What was kept before stays where the command fails, where the outcome is another one, or where a score is
    out of the bounds that are expected: that is a `LeadlineError`.
    """
    about = recordings.about(name, folder)
    words = shlex.split(about.how)
    if name not in renewable(folder) or words[:1] != ["leadline"]:
        raise UsageError(f"{name} cannot be made again: {about.recorded}, {about.how or 'no command'}")
    symptom = recordings.load(name, folder).started.symptom
    words = [symptom if word == _SYMPTOM else word for word in words[1:]]
    with tempfile.TemporaryDirectory(prefix="leadline-renew-") as state:
        say(f"{name}: {about.how}")
        thread = _run(words, Path(state), folder.parent)
        _check(name, about, Recording.load(thread / "transcript.jsonl"))
        options = {"case": about.case, "says": about.says, "how": about.how, "expect": about.expect}
        return recordings.save(thread, name, folder=folder, **options)


def sweep(folder: Path = recordings.FOLDER) -> list[Path]:
    """Remove the artifacts that no recording needs any more; return them."""
    store = recordings.store_of(folder)
    used = {ref.sha256 for name in recordings.names(folder) for ref in _needed(name, folder)}
    used |= {digest for one in used for digest in store.needs(one)}
    gone = [path for path in sorted(store.root.glob("*")) if path.name.partition(".")[0] not in used]
    for path in gone:
        path.unlink()
    return gone


def _needed(name: str, folder: Path) -> Iterator[ArtifactRef]:
    for event in recordings.load(name, folder).events:
        yield from (ref for _, ref in recordings.references(event))


def _run(words: Sequence[str], state: Path, root: Path) -> Path:
    """Run a command with a state folder of its own and return the one thread that it leaves."""
    command = [str(Path(sys.executable).with_name("leadline")), *words]
    environment = os.environ | {"LEADLINE_STATE_DIR": str(state)}  # noqa: TID251 - what a child is given
    done = subprocess.run(
        command, cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S
    )
    threads = list((state / "threads").glob("*/transcript.jsonl"))
    if done.returncode or len(threads) != 1:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        raise LeadlineError(f"{shlex.join(words)} ended with {done.returncode}: {last[0]}")
    return threads[0].parent


def _check(name: str, about: About, made: Recording) -> None:
    outcome = next((event.outcome for event in reversed(made.events) if isinstance(event, Ended)), None)
    if outcome != about.outcome:
        raise LeadlineError(f"{name}: came to {outcome}, not {about.outcome}; the old one is kept")
    if missed := recordings.misses(about, score(case.load(about.case), made.events, made.store)):
        raise LeadlineError(f"{name}: {'; '.join(missed)}; the old one is kept")
