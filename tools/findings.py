"""Turn what a search found into results: files kept as artifacts, matches annotated and judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tools.annotate import Place, annotate
from tools.contract import ArtifactRef, Host, ToolContext
from tools.definitions import ENGINES, Definitions, Engine, read_definitions, read_outside
from tools.hit_files import Masked, contents_around
from tools.judge import Judge
from tools.package_path import below, package_of
from tools.policy_paths import read_denied
from tools.process import ProcessFacts
from tools.search import Found, Hit
from tools.syntax import Module, collector_paused, parse, parse_outline

_LONGEST_LINE = 300


def judge_key(process: ProcessFacts) -> str:
    """Return where the cache holds the judge of a process."""
    return f"judge:{process.host}:{process.pid}:{process.start_time}"


def contents_of(ctx: ToolContext, host: Host) -> dict[str, bytes]:
    """Return the contents that earlier searches of a host brought, by sha256; new ones are added to it."""
    contents: dict[str, bytes] = ctx.cache.setdefault(f"contents:{host.name}", {})
    return contents


@dataclass(slots=True)
class Findings:
    """Work through one search; ``notes`` collects what the reader of the view must know."""

    ctx: ToolContext
    host: Host
    process: ProcessFacts | None
    found: Found
    taken_at: datetime
    conditions: bool = True
    notes: list[str] = field(default_factory=list)
    masked: Masked = field(init=False)

    def __post_init__(self) -> None:
        self.masked = Masked(self.ctx.redact, self.ctx.clean, {})

    def hits(self) -> list[Hit]:
        """Return the hits in files that may be read, in order; the others are named as not permitted."""
        denied = {path for path in {hit.path for hit in self.found.hits} if read_denied(path)}
        self.found.not_permitted += sorted(f"{path}: refused by policy" for path in denied)
        self.found.complete &= not denied
        return sorted((h for h in self.found.hits if h.path not in denied), key=lambda h: (h.path, h.line))

    async def look_around(self, hits: list[Hit], root: str) -> None:
        """Read the files of hits, since a line may be secret for what stands on another."""
        known = contents_of(self.ctx, self.host)
        contents = {path: known[d] for path, d in self.found.digests.items() if d in known}
        contents |= self.found.contents
        contents |= await contents_around(self.host, hits, self.found, root)
        self.masked = Masked(self.ctx.redact, self.ctx.clean, contents)

    def results(self, hits: list[Hit], listing: ArtifactRef) -> list[dict[str, Any]]:
        """Return one result a file, the file that defines the settings first."""
        contents = contents_of(self.ctx, self.host)
        for path, data in self.found.contents.items():
            self.found.digests[path] = digest = hashlib.sha256(data).hexdigest()
            contents[digest] = data
        by_path: dict[str, list[Hit]] = {}
        for hit in hits:
            by_path.setdefault(hit.path, []).append(hit)
        with collector_paused():
            judge = self._judge() if self.conditions else None
            first = self._settings_path(judge)
            paths = sorted(by_path, key=lambda path: (path != first, path))
            return [self._result(path, by_path[path], judge, listing) for path in paths]

    def keep(self, data: bytes, label: str, *, complete: bool = True, path: str | None = None) -> ArtifactRef:
        """Keep output of this search."""
        package, version = package_of(self.process, path) if path else (None, None)
        return self.ctx.keep(
            data,
            host=self.host.name,
            label=label,
            taken_at=self.taken_at,
            path=path,
            package=package,
            version=version,
            complete=complete,
        )

    def _result(
        self, path: str, hits: list[Hit], judge: Judge | None, listing: ArtifactRef
    ) -> dict[str, Any]:
        digest = self.found.digests.get(path, "")
        data = contents_of(self.ctx, self.host).get(digest)
        if data is None:
            plain = [{"line": h.line, "text": cut_line(self.masked.text(h))} for h in hits]
            return {"path": path, "artifact": listing.handle, "matches": plain}
        ref = self._kept_file(path, digest, data)
        place = self._place(path, digest, data, ref, judge, hits)
        result: dict[str, Any] = {"path": path, "artifact": ref.handle, "sha256": digest}
        if isinstance(place, str):
            result["note"] = f"no conditions: {place}"
        result["matches"] = [self._match(place, digest, hit) for hit in hits]
        return result

    def _match(self, place: Place | str, digest: str, hit: Hit) -> dict[str, Any]:
        if isinstance(place, str):
            text = cut_line(self.masked.text(hit))
            return {"line": hit.line, "text": text, "guards": [], "verdict": "unknown"}
        judge = judge_key(self.process) if self.process and place.judge else ""
        key = f"match:{place.path}:{digest}:{hit.line}:{hit.spans}:{judge}:{self.conditions}"
        if key not in self.ctx.cache:
            line = place.shown[hit.line - 1] if hit.line <= len(place.shown) else b""
            shown = {"line": hit.line, "text": cut_line(line)}
            self.ctx.cache[key] = shown | annotate(place, hit, conditions=self.conditions)
        kept: dict[str, Any] = self.ctx.cache[key]
        return dict(kept)

    def _place(
        self, path: str, digest: str, data: bytes, ref: ArtifactRef, judge: Judge | None, hits: list[Hit]
    ) -> Place | str:
        """Return a file parsed around its hits with what these are judged by, or why it cannot be parsed."""
        judged = judge_key(self.process) if self.process and judge else ""
        key = f"place:{path}:{digest}:{judged}"
        if key not in self.ctx.cache:
            module = self._module(digest, data, parse_outline)
            if isinstance(module, str):
                return module
            root = self.process.package_root if self.process else None
            relative = path[len(root) + 1 :] if root and below(path, root) else path
            # A redacted file keeps its line breaks, so its lines can stand in for the raw ones.
            shown = module.lines if ref.sha256 == digest else self.ctx.store.get(ref.sha256).split(b"\n")
            self.ctx.cache[key] = Place(module, relative, judge, shown, self._settings_artifact(judge, path))
        place: Place = self.ctx.cache[key]
        try:
            for hit in hits:
                place.module.read(hit.line)
        except SyntaxError as error:
            return _why(error)
        return place

    def _module(self, digest: str, data: bytes, read: Callable[[bytes], Module] = parse) -> Module | str:
        key = f"module:{digest}"
        if key not in self.ctx.cache:
            try:
                self.ctx.cache[key] = read(data)
            except SyntaxError as error:
                self.ctx.cache[key] = _why(error)
        module: Module | str = self.ctx.cache[key]
        return module

    def _kept_file(self, path: str, digest: str, data: bytes) -> ArtifactRef:
        """Keep a file once in an investigation: the same bytes at the same path keep their handle."""
        key = f"kept:{self.host.name}:{path}:{digest}"
        if key not in self.ctx.cache:
            self.ctx.cache[key] = self.keep(data, path, path=path)
        ref: ArtifactRef = self.ctx.cache[key]
        return ref

    def _settings_path(self, judge: Judge | None) -> str:
        return (
            f"{self.process.package_root}/{judge.definitions.engine.file}" if self.process and judge else ""
        )

    def _settings_artifact(self, judge: Judge | None, path: str) -> str | None:
        """Return the handle of the settings file for matches elsewhere: defaults are quoted from it."""
        settings = self._settings_path(judge)
        if judge is None or settings == path:
            return None
        data = judge.definitions.module.data
        return self._kept_file(settings, hashlib.sha256(data).hexdigest(), data).handle

    def _judge(self) -> Judge | None:
        """Return the judge of the process, made once from its settings file and what the server says."""
        process = self.process
        if process is None:
            return None
        key = judge_key(process)
        if key not in self.ctx.cache:
            engine = ENGINES.get(process.engine)
            if engine is None:
                self.notes.append(f"nothing is judged: {process.engine} has no class of settings")
                return None
            if process.package_root is None:
                self.notes.append(
                    f"nothing is judged: where the package of pid {process.pid} lies is not known"
                )
                return None
            definitions = self._definitions(engine, f"{process.package_root}/{engine.file}")
            if definitions is None:
                return None
            self.ctx.cache[key] = Judge.of(definitions, process.argv, process.effective)
        judge: Judge = self.ctx.cache[key]
        return judge

    def _definitions(self, engine: Engine, path: str) -> Definitions | None:
        digest = self.found.digests.get(path, "")
        data = contents_of(self.ctx, self.host).get(digest)
        module = self._module(digest, data) if data is not None else "it could not be read"
        if isinstance(module, str):
            self.notes.append(f"nothing is judged: {path}: {module}")
            return None
        try:
            definitions = read_definitions(engine, module)
        except SyntaxError as error:
            self.notes.append(f"nothing is judged: {path}: {error.msg}")
            return None
        read_outside(definitions, self.found.outside)
        return definitions


def _why(error: SyntaxError) -> str:
    return f"{error.msg} (line {error.lineno})"


def cut_line(line: bytes) -> str:
    """Return a line as text, with what is beyond 300 characters counted."""
    text = line.decode("utf-8", "replace").rstrip()
    more = len(text) - _LONGEST_LINE
    return text if more <= 0 else f"{text[:_LONGEST_LINE]} [... {more} more]"
