"""Look every quote of an answer up again in what was printed, and in the file that it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from agent.own_words import refuse_own_words
from agent.quotes import Found, StoredTexts, citation
from agent.state import Citation, Cite
from evals.baseline_answer import Answer, Piece, QuoteArgs, SubmitArgs
from tools import read_file
from tools.contract import ArtifactRef, ToolContext, ToolError
from tools.process import load_process

_ID = re.compile(r"(t\d+)(\.\d+)?(?![\w.])")
_PATH = re.compile(r"(?<![\w./$*-])/[\w@%+,./-]*\w")
_NUMBERED = re.compile(r"(?m)^(?:(/[^:\s]+)[:-])?(\d+)[:-]")
"""What grep puts before a line: a path if there are several files, then the line's number."""


async def look_up(ctx: ToolContext, args: SubmitArgs) -> Answer:
    """Return the answer with each quote found, or not; files that quotes came from are read and kept."""
    finder = _Finder(ctx)
    return Answer(
        args=args,
        causes=[[await finder.piece(given) for given in item.evidence] for item in args.causes],
        ruled_out=[[await finder.piece(given) for given in item.evidence] for item in args.ruled_out],
    )


def outputs_named(
    seen_in: str, artifacts: Mapping[str, ArtifactRef], texts: StoredTexts
) -> list[ArtifactRef]:
    """Return the outputs that an id or a path stands for: of this command, or of those that show the path."""
    named = _ID.match(seen_in.strip())
    if named is not None and named[2]:
        return [artifacts[named[0]]] if named[0] in artifacts else []
    if named is not None:
        return [ref for name, ref in artifacts.items() if name.startswith(f"{named[1]}.")]
    wanted = seen_in.strip()
    base = wanted.rsplit("/", 1)[-1]
    in_command = [ref for ref in artifacts.values() if base and base in ref.label]
    return in_command or [ref for ref in artifacts.values() if wanted in texts.of(ref).raw]


class _Finder:
    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._texts = StoredTexts(ctx.store)
        self._files: dict[str, ArtifactRef | None] = {}

    async def piece(self, given: QuoteArgs) -> Piece:
        """Return a quote with its citation; without one when the named output does not hold it."""
        for ref in outputs_named(given.seen_in, self._ctx.artifacts, self._texts):
            try:
                refuse_own_words("bash", ref, given.quote)
                place = self._texts.first(ref, Cite(artifact=ref.handle, quote=given.quote))
            except ToolError:
                continue
            cited = await self._in_file(ref, place, given) or citation(ref, place)
            cite = Cite(artifact=cited.artifact, quote=cited.quote, lines=cited.lines)
            return Piece(given, cite, cited)
        return Piece(given, Cite(artifact=self._as_written(given), quote=given.quote))

    def _as_written(self, given: QuoteArgs) -> str:
        """Return the handle that the verifier is to look under when the quote was not found."""
        named = outputs_named(given.seen_in, self._ctx.artifacts, self._texts)
        return named[0].handle if named else given.seen_in

    async def _in_file(self, ref: ArtifactRef, place: Found, given: QuoteArgs) -> Citation | None:
        """Return where the quoted lines stand in the file that the output shows; None for anything else."""
        before = self._texts.of(ref).line(place.lines[0])
        numbered = _NUMBERED.match(before)
        path = _path_of(ref, numbered[1] if numbered else None, given.seen_in)
        file = await self._file(path) if path else None
        if file is None:
            return None
        places = self._places(file, place.raw) or self._places(file, _NUMBERED.sub("", place.raw))
        if not places:
            return None
        near = int(numbered[2]) if numbered else place.lines[0] if ref.path else places[0].lines[0]
        best = min(places, key=lambda found: abs(found.lines[0] - near))
        return citation(file, best)

    def _places(self, file: ArtifactRef, quote: str) -> list[Found]:
        return list(self._texts.of(file).find(quote))

    async def _file(self, path: str) -> ArtifactRef | None:
        """Read a file of the host once, as the product's own reader does; None when it cannot be read."""
        if path not in self._files:
            self._files[path] = None
            with suppress(ToolError):  # When no engine runs the citation of the file names no package.
                await load_process(self._ctx, self._ctx.host())
            try:
                view = await read_file.run(self._ctx, read_file.Args(path=path))
            except ToolError:
                return None
            self._files[path] = next(
                (ref for ref in self._ctx.kept if ref.handle == view["artifact"] and ref.complete), None
            )
        return self._files[path]


def _path_of(ref: ArtifactRef, in_line: str | None, seen_in: str) -> str | None:
    """Return the one file that a line of output is from, when output, command or answer says which."""
    if ref.path or in_line:
        return ref.path or in_line
    if seen_in.startswith("/"):
        return seen_in.split(":", 1)[0]
    paths = [path for path in dict.fromkeys(_PATH.findall(ref.label)) if not path.startswith("/dev/")]
    return paths[0] if len(paths) == 1 else None
