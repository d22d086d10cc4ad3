"""Read the command line of an inference engine: which engine it is, and its flags as argparse sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

Engine = Literal["sglang", "vllm"]
Flag = bool | str | list[str]

# Second spellings of one argument in SGLang's own definitions, where the field's name is the short one.
_SGLANG_FIELDS = {
    "model": "model_path",
    "tensor_parallel_size": "tp_size",
    "tp": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "pp": "pp_size",
    "data_parallel_size": "dp_size",
    "dp": "dp_size",
    "expert_parallel_size": "ep_size",
    "ep": "ep_size",
}
_DEFAULT_PORT: dict[Engine, int] = {"sglang": 30000, "vllm": 8000}
_SECRET = r"--?(?:[\w-]*-)?(?:api-?key|token|secret|password|passwd|credentials?)"
_SECRET_FLAG = re.compile(f"^{_SECRET}$", re.IGNORECASE)
_SECRET_TEXT = re.compile(rf"(?i)(?<!\S)({_SECRET})([= \t]+)(?!-)\S+")
_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
HIDDEN = "[value hidden]"


def engine_of(argv: Sequence[str]) -> Engine | None:
    """Return which engine a command line starts, or None; wrappers (`sh -c`, `docker run`) are none."""
    if not argv or not re.fullmatch(r".*python.*|sglang|vllm", PurePosixPath(argv[0]).name):
        return None
    for place, word in enumerate(argv):
        after = argv[place + 1] if place + 1 < len(argv) else ""
        name = PurePosixPath(word).name
        if word == "sglang.launch_server" or word.endswith("/sglang/launch_server.py"):
            return "sglang"
        if word.startswith("vllm.entrypoints"):
            return "vllm"
        if name == "sglang" and after == "serve":
            return "sglang"
        if name == "vllm" and after == "serve":
            return "vllm"
    return None


def mask(argv: Sequence[str]) -> list[str]:
    """Return the command line with the values of flags that carry secrets hidden."""
    out: list[str] = []
    hide = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if hide and not word.startswith("--"):
            out.append(HIDDEN)
        elif equals and _SECRET_FLAG.match(name):
            out.append(f"{name}={HIDDEN}")
        else:
            out.append(word)
        hide = bool(_SECRET_FLAG.match(word))
    return out


def mask_text(text: str) -> str:
    """Return unit text with the values of flags that carry secrets hidden; lines stay where they are."""
    return _SECRET_TEXT.sub(rf"\1\2{HIDDEN}", text)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.match(word) and word != "--"


def _body(argv: Sequence[str]) -> list[str]:
    """Return the words after the module or the command that names the engine."""
    for place, word in enumerate(argv):
        if word.startswith(("sglang.launch_server", "vllm.entrypoints")) or word.endswith("launch_server.py"):
            return list(argv[place + 1 :])
        if word == "serve":
            return list(argv[place + 1 :])
    return list(argv[1:])


def flags(argv: Sequence[str], engine: Engine) -> dict[str, Flag]:
    """Return flags by field name: text, a list of values, True for a flag without one; last wins."""
    out: dict[str, Flag] = {}
    values: list[str] = []
    name: str | None = None

    def close() -> None:
        if name is not None:
            out[name] = True if not values else values[0] if len(values) == 1 else list(values)

    for word in _body(argv):
        if _is_option(word):
            close()
            head, equals, value = word.partition("=")
            name = head.lstrip("-").replace("-", "_")
            name = _SGLANG_FIELDS.get(name, name) if engine == "sglang" else name
            values = [value] if equals else []
        elif name is None:  # before the first flag: what the command serves
            out.setdefault("model_path" if engine == "sglang" else "model", word)
        else:
            values.append(word)
    close()
    return out


def port_of(found: dict[str, Flag], engine: Engine) -> int:
    """Return the port a launch line asks for, else the engine's default."""
    port = found.get("port")
    return int(port) if isinstance(port, str) and port.isdigit() else _DEFAULT_PORT[engine]


def differences(unit: dict[str, Flag], process: dict[str, Flag]) -> list[str]:
    """Say, flag by flag, where a unit's launch line is not what runs."""
    out = []
    for name in sorted({*unit, *process}):
        if name not in process:
            out.append(f"{name}={unit[name]} in the unit, not in the process")
        elif name not in unit:
            out.append(f"{name}={process[name]} in the process, not in the unit")
        elif unit[name] != process[name] and "$" not in str(unit[name]) and "%" not in str(unit[name]):
            out.append(f"{name}: {unit[name]} in the unit, {process[name]} in the process")
    return out
