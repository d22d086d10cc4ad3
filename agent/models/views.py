"""What the built-in model sees: the JSON views of tool results, read without trust in their shape."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from agent.untrusted import unwrapped
from tools import launch_line

View = Mapping[str, Any]

SHORT = 400
"""Longest text quoted whole, in characters; of longer ones only what the pattern found."""


def parse_view(text: str) -> View:
    """Return the JSON object of a tool message; text that is none becomes ``{"error": text}``."""
    try:
        value = json.loads(unwrapped(text))
    except json.JSONDecodeError:
        return {"error": text}
    return value if isinstance(value, dict) else {"error": text}


def rows(view: View, key: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list of the view, or nothing."""
    value = view.get(key)
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class Quote:
    """Hold a text that a view shows, and what a citation of it needs."""

    artifact: str
    text: str
    lines: tuple[int, int] | None = None

    def cite(self) -> dict[str, Any]:
        """Return it as the `Cite` of a claim or the quote of evidence."""
        return {
            "artifact": self.artifact,
            "quote": self.text,
            "lines": list(self.lines) if self.lines else None,
        }


@dataclass(frozen=True, slots=True)
class Facts:
    """Read the parts of a ``facts`` view that the method decides by."""

    view: View
    engine: View = field(default_factory=dict)

    @classmethod
    def of(cls, view: View, symptom: str = "") -> Facts:
        """Take the engine process that the symptom names most of, the first one when it names none."""
        engines = rows(view, "engines")
        return cls(view, max(engines, key=lambda one: _named(one, symptom), default={}))

    @property
    def host(self) -> str:
        """Return the name of the host."""
        return str(self.view.get("host", ""))

    @property
    def flags(self) -> Mapping[str, Any]:
        """Return the launch flags of the engine process by setting name; True for a bare flag."""
        flags = self.engine.get("flags")
        given = flags if isinstance(flags, dict) else {}
        runners = rows(self.engine, "runners")
        argv = runners[-1].get("argv") if runners else None
        # What Ollama gives a model runner is what it decided for itself.
        return {**runner_flags(argv), **given} if isinstance(argv, list) else given

    @property
    def processors(self) -> float | None:
        """Return how many processors the unit may use, where its limits say so."""
        limits = self.service.get("limits")
        return allowed_processors(limits) if isinstance(limits, dict) else None

    @property
    def unit(self) -> str:
        """Return the unit of the engine process, or an empty text when it has none."""
        return str(self.engine.get("unit") or "")

    @property
    def service(self) -> View:
        """Return the unit's row, or nothing when the process has no unit."""
        found = [row for row in rows(self.view, "services") if row.get("unit") == self.unit]
        return found[0] if found and self.unit else {}

    @property
    def in_container(self) -> bool:
        """Tell whether the engine process is seen to be in a container."""
        return self.engine.get("in_container") is True

    @property
    def log_file(self) -> str:
        """Return the file that a process without a unit writes its output to, if it is one."""
        path = str(self.engine.get("stdout") or "")
        plain = re2.fullmatch(r"/[\w./@:+=,-]+", path) is not None
        return path if plain and not self.unit and not path.startswith(("/dev/", "/proc/")) else ""

    @property
    def others(self) -> list[str]:
        """Return the other engine processes of the host, as a person names them."""
        return [
            f"{row.get('engine')} in {row.get('unit') or 'no unit'} (pid {row.get('pid')}{_inside(row)})"
            for row in rows(self.view, "engines")
            if row.get("pid") != self.engine.get("pid")
        ]

    @property
    def told_apart_by(self) -> str:
        """Return what a symptom may name of another engine: units and ports where none is shared."""
        engines = rows(self.view, "engines")
        called = [(row.get("unit"), None if row.get("unit") else row.get("port")) for row in engines]
        return "a unit or port" if len(set(called)) == len(called) else "the pid"

    @property
    def names(self) -> str:
        """Return what the model and the GPUs are called, a name a line."""
        gpus = [str(row.get("name")) for row in rows(self.view.get("hardware") or {}, "gpus")]
        served = [str(self.flags.get(name, "")) for name in ("model_path", "model", "served_model_name")]
        return "\n".join([*served, *gpus])

    @property
    def pid(self) -> int:
        """Return the engine's process id, 0 when there is none."""
        return int(self.engine.get("pid") or 0)

    @property
    def slots(self) -> int:
        """Return the pipeline's slots, which is the concurrency worth measuring; 8 without a pipeline."""
        size = str(self.flags.get("pp_size", "1"))
        return int(size) if size.isdigit() and int(size) > 1 else 8

    def artifact(self, key: str) -> str | None:
        """Return the handle of one part of the facts, such as ``cmdline:PID``."""
        artifacts = self.view.get("artifacts")
        return artifacts.get(key) if isinstance(artifacts, dict) else None

    def values(self) -> dict[str, str]:
        """Return what a playbook's probes and texts may name in braces."""
        found = {name: str(value) for name, value in self.flags.items()}
        found |= {"unit": self.unit, "pid": str(self.pid), "slots": str(self.slots)}
        return found | {
            "processors": f"{int(self.processors or 0) or 1}",
            "port": str(self.engine.get("port") or 30000),
            "address": self._address(),
            "taken_at": str(self.view.get("taken_at", "")),
        }

    def _address(self) -> str:
        """Return an address at which the engine listens, on the host itself."""
        port = self.engine.get("port")
        bound = [str(row.get("address")) for row in rows(self.view, "ports") if row.get("port") == port]
        anywhere = {"0.0.0.0", "::", "127.0.0.1"} & set(bound)
        found = "127.0.0.1" if anywhere or not bound else bound[0]
        return f"[{found}]" if ":" in found else found

    def flag_quote(self, name: str) -> Quote | None:
        """Quote a launch flag with its value from the command line of the process."""
        handle = self.artifact(f"cmdline:{self.pid}")
        argv = self.engine.get("argv")
        if handle is None or not isinstance(argv, list):
            return None
        for word, following in zip(argv, [*argv[1:], "--"], strict=False):
            stem, equals, _ = str(word).partition("=")
            if stem.startswith("--") and stem[2:].replace("-", "_") == name:
                bare = equals or self.flags.get(name) is True
                return Quote(handle, str(word) if bare else f"{word} {following}")
        return None


def _inside(engine: View) -> str:
    return ", in a container" if engine.get("in_container") is True else ""


def runner_flags(argv: Sequence[Any]) -> Mapping[str, Any]:
    """Return what a model runner of Ollama was given."""
    return launch_line.flags([str(word) for word in argv], "ollama")


def allowed_processors(limits: Mapping[str, Any]) -> float | None:
    """Return the fewer of the processors that a unit's list names and that its quota pays for."""
    found: list[float] = []
    spans = re2.findall(r"(\d+)(?:-(\d+))?", str(limits.get("AllowedCPUs") or ""))
    if spans:
        found.append(sum(int(last or first) - int(first) + 1 for first, last in spans))
    if quota := re2.fullmatch(r"(\d+(?:\.\d+)?)(%|ms|s)", str(limits.get("CPUQuotaPerSecUSec") or "")):
        found.append(float(quota.group(1)) / {"%": 100, "ms": 1000, "s": 1}[quota.group(2)])
    return min(found, default=None)


def named_most(view: View, symptom: str) -> int:
    """Return how much a symptom says of that one of a host's engines of which it says most."""
    return max((_named(one, symptom) for one in rows(view, "engines")), default=0)


def _named(engine: View, symptom: str) -> int:
    """Count what a symptom says of an engine: its unit, port, model, kind, and how it is split."""
    flags = engine.get("flags") if isinstance(engine.get("flags"), dict) else {}
    assert isinstance(flags, dict)
    model = str(flags.get("served_model_name") or flags.get("model_path") or flags.get("model") or "")
    said = symptom.lower()
    words = [str(engine.get("engine")), str(engine.get("unit") or "").removesuffix(".service")]
    words += [str(engine.get("port")), str(engine.get("pid")), model.rpartition("/")[2]]
    words += [f"{kind}{flags[f'{kind}_size']}" for kind in ("pp", "tp", "dp") if f"{kind}_size" in flags]
    return sum(re2.search(rf"(?i)\b{re2.escape(word)}\b", said) is not None for word in words if word)


def view_quotes(view: View) -> Iterator[Quote]:
    """Yield every line of text that a journal, run, grep or read_file view shows, with its place."""
    for key in ("decode", "shown"):
        for row in rows(view, key):
            yield _row_quote(view, row)
    yield from _printed(view)
    yield from match_quotes(view)


def match_quotes(view: View) -> Iterator[Quote]:
    """Yield the matching lines of a grep view."""
    for result, match in matches(view):
        line = int(match.get("line", 0))
        lines = (line, int(match.get("last_line") or line))
        yield Quote(str(result.get("artifact", "")), str(match.get("text", "")), lines)


def matches(view: View) -> Iterator[tuple[View, View]]:
    """Yield (file, match) pairs of a grep view."""
    for result in rows(view, "results"):
        for match in rows(result, "matches"):
            yield result, match


def find_quote(views: Sequence[View], pattern: str) -> Quote | None:
    """Return the newest shown text that the pattern finds.

    ``@highest`` before a pattern looks only at the decode line with the fullest batch, ``@newest`` only at
    the newest line, so that an older line cannot stand for what is so now.
    """
    select, wanted = view_quotes, pattern
    for prefix, selection in (("@highest ", _fullest), ("@newest ", _newest)):
        if pattern.startswith(prefix):
            select, wanted = selection, pattern.removeprefix(prefix)
    expression = re2.compile(wanted)
    for view in views:
        # The newest line of a log counts, and the first place of a search.
        for quote in list(select(view)) if "results" in view else reversed(list(select(view))):
            if quote.artifact and (found := expression.search(quote.text)):
                text = quote.text.strip() if len(quote.text) < SHORT else found.group(0)
                return Quote(quote.artifact, text, quote.lines)
    return None


def _row_quote(view: View, row: View) -> Quote:
    line = row.get("line")
    place = (line, line) if isinstance(line, int) else None
    return Quote(str(view.get("artifact") or ""), str(row.get("text", "")), place)


def _fullest(view: View) -> Iterator[Quote]:
    batches = rows(view, "decode")
    if batches:
        yield _row_quote(view, max(batches, key=lambda row: int(row.get("running_req") or 0)))
    elif lines := [quote for quote in _printed(view) if _RUNNING.search(quote.text)]:
        yield max(lines, key=lambda quote: int(_RUNNING.search(quote.text).group(1)))


def _newest(view: View) -> Iterator[Quote]:
    shown = rows(view, "shown")
    if shown:
        yield _row_quote(view, max(shown, key=lambda row: str(row.get("last_at") or row.get("at") or "")))
    elif printed := list(_printed(view)):
        yield printed[-1]


_RUNNING = re2.compile(r"#running-req: ?(\d+)")


def _printed(view: View) -> Iterator[Quote]:
    """Yield the lines of command output, such as a search of a log that is a file."""
    if artifact := str(view.get("artifact") or ""):
        for text in str(view.get("stdout") or view.get("text") or "").splitlines():
            if text.strip():
                yield Quote(artifact, text.strip())
