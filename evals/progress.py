"""Show how far a run is: a bar on a terminal, a line a result anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from evals.results import Result
from evals.table import line


@dataclass(frozen=True, slots=True)
class Shown:
    """Take results as they come."""

    result: Callable[[Result], None]


@contextmanager
def progress(stream: IO[str], total: int) -> Iterator[Shown]:
    """Show results on ``stream`` for the time of the block."""
    if not stream.isatty():
        yield Shown(_lines(stream, total))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from agent.surfaces.console import open_console

    console = open_console(stream)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("eval", total=total)

        def show(result: Result) -> None:
            console.print(line(result), markup=False)
            bar.advance(task)

        yield Shown(show)


def _lines(stream: IO[str], total: int) -> Callable[[Result], None]:
    done = 0

    def show(result: Result) -> None:
        nonlocal done
        done += 1
        stream.write(f"[{done}/{total}] {line(result)}\n")
        stream.flush()

    return show
