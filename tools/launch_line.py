"""Read the command line of an inference engine: which engine it is, and its flags as argparse sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal

Engine = Literal["sglang", "vllm", "ollama", "llama.cpp"]
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
# Short spellings of llama-server's options, which do not begin with the long name's letters alone.
_LLAMA_FIELDS = {
    "m": "model",
    "a": "alias",
    "c": "ctx_size",
    "t": "threads",
    "tb": "threads_batch",
    "b": "batch_size",
    "ub": "ubatch_size",
    "np": "parallel",
    "fa": "flash_attn",
    "ngl": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers",
    "ncmoe": "n_cpu_moe",
    "cmoe": "cpu_moe",
    "ot": "override_tensor",
    "dev": "device",
    "sm": "split_mode",
    "ts": "tensor_split",
    "mg": "main_gpu",
    "ctk": "cache_type_k",
    "ctv": "cache_type_v",
    "md": "model_draft",
}
_FIELDS: Final[Mapping[Engine, Mapping[str, str]]] = {"sglang": _SGLANG_FIELDS, "llama.cpp": _LLAMA_FIELDS}
_DEFAULT_PORT: Final[Mapping[Engine, int]] = {
    "sglang": 30000,
    "vllm": 8000,
    "ollama": 11434,
    "llama.cpp": 8080,
}
_PORT_VARIABLES: Final[Mapping[Engine, str]] = {"ollama": "OLLAMA_HOST", "llama.cpp": "LLAMA_ARG_PORT"}
_PROGRAMS: Final[Mapping[str, Engine]] = {"llama-server": "llama.cpp"}
_SECRET = r"--?(?:[\w-]*-)?(?:api-?key|token|secret|password|passwd|credentials?)"
_SECRET_FLAG = re.compile(f"^{_SECRET}$", re.IGNORECASE)
_SECRET_TEXT = re.compile(rf"(?i)(?<!\S)({_SECRET})([= \t]+)(?!-)\S+")
_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
_MODULES = ("sglang.launch_server", "vllm.entrypoints", "llama_cpp.server")
HIDDEN = "[value hidden]"


def engine_of(argv: Sequence[str]) -> Engine | None:
    """Return which engine a command line starts, or None; wrappers (`sh -c`, `docker run`) are none."""
    first = PurePosixPath(argv[0]).name if argv else ""
    if first in _PROGRAMS:
        return _PROGRAMS[first]
    if first == "ollama":
        return "ollama" if len(argv) > 1 and argv[1] in ("serve", "runner") else None
    if not re.fullmatch(r".*python.*|sglang|vllm", first):
        return None
    for place, word in enumerate(argv):
        after = argv[place + 1] if place + 1 < len(argv) else ""
        name = PurePosixPath(word).name
        if word == "sglang.launch_server" or word.endswith("/sglang/launch_server.py"):
            return "sglang"
        if word.startswith("vllm.entrypoints"):
            return "vllm"
        if word == "llama_cpp.server":
            return "llama.cpp"
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
        if word.startswith(_MODULES) or word.endswith("launch_server.py"):
            return list(argv[place + 1 :])
        if word in ("serve", "runner"):
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
            name = _FIELDS.get(engine, {}).get(name, name)
            values = [value] if equals else []
        elif name is None:  # before the first flag: what the command serves
            out.setdefault("model_path" if engine == "sglang" else "model", word)
        else:
            values.append(word)
    close()
    return out


def port_of(found: Mapping[str, Flag], engine: Engine, environ: Mapping[str, str] | None = None) -> int:
    """Return the port a launch line asks for, else the environment, else the engine's default."""
    port = found.get("port")
    if isinstance(port, str) and port.isdigit():
        return int(port)
    given = (environ or {}).get(_PORT_VARIABLES.get(engine, ""), "")
    # OLLAMA_HOST may be an address alone, an address with a port, or an URL.
    named = re.search(r"(?:^[^:]*|\]):(\d{1,5})/*$", given.partition("://")[2] or given)
    return int(named.group(1)) if named else _DEFAULT_PORT[engine]


def package_of(engine: Engine) -> str:
    """Return the name under which a Python environment lists the engine."""
    return "llama_cpp_python" if engine == "llama.cpp" else engine


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
