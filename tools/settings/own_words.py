"""Read what an engine says of its own settings: ``/server_info``, and the lines that it logs as it starts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.settings.evidence import Evidence
from tools.settings.locate import Location

UNREAD: Final = object()
"""Stands for a value whose text is no plain value."""
_CALLS: Final = (
    ("server_args=ServerArgs(", "start-up line server_args"),
    (" with config: ", "start-up line of the engine's config"),
)
_VLLM_NAMES: Final = {"max_seq_len": "max_model_len"}
_PAIR: Final = re.compile(
    r"(?<![\w.])([a-z][a-z0-9_]{3,})=(True|False|None|-?\d+(?:\.\d+)?|'[^']*')(?=$|[\s,;)\]])"
)
_VOLATILE: Final = frozenset(
    {"random_seed", "internal_states", "status", "last_gen_throughput", "memory_usage"}
)


@dataclass(frozen=True, slots=True)
class Word:
    """Hold one value as the engine tells it."""

    name: str
    value: Any
    source: str
    """Where it says so: ``/server_info``, or the line of the log."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold one thing that shows how a setting works out, and whether it fits the value in force."""

    name: str
    text: str
    value: Any = UNREAD
    source: str = ""


def own_words(location: Location, evidence: Evidence, names: Iterable[str]) -> dict[str, Word]:
    """Return what the engine says of each setting; ``/server_info`` of the scheduler goes before the log."""
    known = _spelled(names)
    found: dict[str, Word] = {}
    for name, value in location.process.effective.items():
        if name in known and name not in _VOLATILE:
            found[known[name]] = Word(known[name], value, "/server_info")
    for line in evidence.log.splitlines():
        for start, source in _CALLS:
            if start in line:
                for name, value in _arguments(line.partition(start)[2]):
                    name = _VLLM_NAMES.get(name, name) if "vllm" in location.process.engine else name
                    if name in known and value is not UNREAD and name not in _VOLATILE:
                        found.setdefault(known[name], Word(known[name], value, source))
    return found


def _spelled(names: Iterable[str]) -> dict[str, str]:
    """Return every setting by its own name and, where that is clear, by the part after its section."""
    spelled: dict[str, str] = {}
    twice: set[str] = set()
    every = list(names)
    for name in every:
        short = name.rpartition(".")[2]
        if short in spelled:
            twice.add(short)
        spelled[short] = name
    return {short: name for short, name in spelled.items() if short not in twice} | {n: n for n in every}


def _arguments(text: str) -> Iterator[tuple[str, Any]]:
    """Yield name and value of ``a=1, b='x', c=<Odd: 1>)``; brackets and quotes are kept together."""
    depth, quote, start, place = 0, "", 0, 0
    parts = []
    while place < len(text):
        char = text[place]
        if quote:
            place += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                break
        elif char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
        place += 1
    for part in [*parts, text[start:place]]:
        name, equals, value = part.strip().partition("=")
        if equals and name.isidentifier():
            yield name, _plain(value)


def _plain(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if re.fullmatch(r"[A-Za-z_][\w./-]*", text):  # vLLM prints words without quotes
            return text.removeprefix("torch.")
        return UNREAD


def observed(evidence: Evidence, engine: str, names: Iterable[str]) -> dict[str, list[Seen]]:
    """Return what metrics, start-up lines and decode lines show of settings."""
    known = _spelled(names)
    found: dict[str, list[Seen]] = {}
    rows = [
        *_metrics(evidence.metrics, known),
        *_decode(evidence.decode, known),
        *_logged(evidence.log, known),
    ]
    for row in rows:
        one = found.setdefault(row.name, [])
        if all(row.text != other.text for other in one) and len(one) < 4:
            one.append(row)
    return found


def _metrics(text: str, known: Mapping[str, str]) -> Iterator[Seen]:
    passes: dict[str, float] = {}
    for line in text.splitlines():
        name, labels, value = _sample(line)
        if name == "sglang:is_cuda_graph" and "disable_cuda_graph" in known:
            yield Seen(known["disable_cuda_graph"], f"{name} {value}", source="metric")
        elif name == "sglang:cuda_graph_passes_total" and labels.get("mode", "").startswith("decode"):
            passes[labels["mode"]] = passes.get(labels["mode"], 0.0) + float(value or 0)
        elif name.endswith(":cache_config_info"):
            for label, shown in labels.items():
                if label in known and shown:
                    yield Seen(known[label], f"{name} {label}={shown}", _word(shown), "metric")
        elif name == "sglang:context_len" and "context_length" in known:
            yield Seen(known["context_length"], f"{name} {value}", _word(value.removesuffix(".0")), "metric")
    if any(passes.values()) and "disable_cuda_graph" in known:
        shown = ", ".join(f"{mode} {count:g}" for mode, count in sorted(passes.items()))
        yield Seen(known["disable_cuda_graph"], f"decode steps since the start: {shown}", source="metric")


def _sample(line: str) -> tuple[str, dict[str, str], str]:
    name, brace, rest = line.partition("{")
    if not brace:
        name, _, value = line.partition(" ")
        return name, {}, value
    labels, _, value = rest.rpartition("} ")
    return name, dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)), value.split(" ")[0]


def _word(text: str) -> Any:
    found = _plain(text)
    return text if found is UNREAD else found


def _decode(text: str, known: Mapping[str, str]) -> Iterator[Seen]:
    graphs = [found[1] for found in re.finditer(r"cuda graph: (True|False|[A-Z]\w+)", text)]
    if graphs and "disable_cuda_graph" in known:
        shown = f"last {len(graphs)} decode lines: cuda graph: {', '.join(sorted(set(graphs)))}"
        yield Seen(known["disable_cuda_graph"], shown, source="decode lines")
    running = [int(found[1]) for found in re.finditer(r"#running-req: (\d+)", text)]
    if running and "max_running_requests" in known:
        shown = f"last {len(running)} decode lines: at most {max(running)} running"
        yield Seen(known["max_running_requests"], shown, source="decode lines")


def _logged(text: str, known: Mapping[str, str]) -> Iterator[Seen]:
    for line in text.splitlines():
        if any(start in line for start, _ in _CALLS) or "non-default args" in line:
            continue
        for found in _PAIR.finditer(line):
            name = "context_length" if found[1] == "context_len" else found[1]
            if name in known:
                yield Seen(known[name], f"{found[1]}={found[2]}", _plain(found[2]), "start-up log")
