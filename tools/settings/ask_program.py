"""Try a launch line against the engine's own argument class; sent to a host as text, run by its interpreter.

The request is one JSON object on standard input, the answer one on standard output. No model is loaded and no
GPU is touched: CUDA sees no device, and what the argument code asks of torch about GPUs is answered by what
``nvidia-smi`` says of those that the process may use. Kept to syntax that Python 3.9 reads.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import importlib.util
import io
import json
import math
import os
import pwd
import resource
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

_LARGEST = 2 << 20
"""Bytes of an answer; more is not sent."""
_WORDS = 4000


def limit(request: dict[str, Any]) -> None:
    """Bound time, memory and what may be written, before anything of the engine is loaded."""
    os.nice(5)
    seconds = int(request["seconds"])
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(seconds)
    for kind, value in (
        (resource.RLIMIT_AS, request["address_space"]),
        (resource.RLIMIT_DATA, request["memory"]),
        (resource.RLIMIT_CPU, 2 * seconds),
        (resource.RLIMIT_FSIZE, 16 << 20),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the argument code did not come to an end in time")


def surround(request: dict[str, Any]) -> None:
    """Give the environment of the process, and find its package first."""
    environment = os.environ  # noqa: TID251 - of the interpreter on the host
    environment.update(request["environment"])
    environment.setdefault("HOME", pwd.getpwuid(os.getuid()).pw_dir)
    visible = request["visible_devices"]
    # Only what Python code reads: the C library's copy, which CUDA looks at, stays empty.
    seen = vars(environment)["_data"]
    if visible is None:
        seen.pop(os.fsencode("CUDA_VISIBLE_DEVICES"), None)
    else:
        seen[os.fsencode("CUDA_VISIBLE_DEVICES")] = os.fsencode(visible)
    root = request["package_root"]
    spec = importlib.util.find_spec(request["engine"])
    found = Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
    if root and found != Path(root).resolve():
        sys.path.insert(0, str(Path(root).parent))


def devices(visible: str | None) -> list[dict[str, Any]]:
    """Return the GPUs that the process may use, as ``nvidia-smi`` names them."""
    query = [
        "nvidia-smi",
        "--query-gpu=index,uuid,name,memory.total,compute_cap",
        "--format=csv,noheader,nounits",
    ]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=15, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [
        [part.strip() for part in line.split(",")]
        for line in done.stdout.splitlines()
        if line.count(",") == 4
    ]
    found = {}
    for index, uuid, name, memory, capability in rows:
        major, _, minor = capability.partition(".")
        if not (memory.isdigit() and major.isdigit() and minor.isdigit()):
            continue
        one = {"name": name, "bytes": int(memory) << 20, "capability": (int(major), int(minor))}
        found[index] = found[uuid] = one
    order = [row[0] for row in rows] if visible is None else [part.strip() for part in visible.split(",")]
    return [found[one] for one in order if one in found]


def answer_probes(found: list[dict[str, Any]]) -> None:
    """Answer what argument code asks torch about GPUs, without the driver."""
    torch: Any = importlib.import_module("torch")

    def one(device: Any = None) -> dict[str, Any]:
        index = getattr(device, "index", device)
        if isinstance(index, str):
            index = index.partition(":")[2] or 0
        return found[int(index or 0)]

    def properties(device: Any = None) -> Any:
        gpu = one(device)
        major, minor = gpu["capability"]
        return SimpleNamespace(
            name=gpu["name"], total_memory=gpu["bytes"], major=major, minor=minor, is_integrated=False
        )

    def refuse(*given: Any, **named: Any) -> None:
        raise RuntimeError("no CUDA context is made while a launch line is tried")

    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda.is_initialized = lambda: True
    cuda.device_count = lambda: len(found)
    cuda.current_device = lambda: 0
    cuda.get_device_capability = lambda device=None: one(device)["capability"]
    cuda.get_device_name = lambda device=None: one(device)["name"]
    cuda.get_device_properties = properties
    cuda.init = cuda._lazy_init = refuse


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth > 6:
        return f"<{type(value).__name__}>"
    if isinstance(value, enum.Enum):
        return plain(value.value, depth + 1) if isinstance(value.value, str) else value.name
    if isinstance(value, dict):
        return {str(getattr(key, "value", key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item, depth + 1) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            one.name: plain(getattr(value, one.name, None), depth + 1) for one in dataclasses.fields(value)
        }
    if hasattr(value, "__struct_fields__"):
        return {name: plain(getattr(value, name, None), depth + 1) for name in value.__struct_fields__}
    return f"<{type(value).__name__}>"


def sglang_words(entry: str, words: list[str]) -> list[str]:
    """Return the words that reach the server's parser; ``sglang serve`` takes its own out first."""
    if entry != "serve":
        return words
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--model-type":
            next(rest, None)
        elif not word.startswith("--model-type="):
            kept.append(word)
    if kept and not kept[0].startswith("-"):
        kept = ["--model-path", *kept]
    return kept


def ask_sglang(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Go the way of SGLang's launcher up to the point where it would start processes."""
    with contextlib.suppress(ImportError):
        importlib.import_module("sglang.srt.plugins").load_plugins()
    module = importlib.import_module("sglang.srt.server_args")
    answer["stage"] = "parse"
    args = module.prepare_server_args(sglang_words(request["entry"], request["words"]))
    answer["stage"] = "derive"
    if hasattr(args, "resolve_once"):
        args.resolve_once()
    answer["stage"] = "check"
    if hasattr(args, "check_server_args"):
        args.check_server_args()
    if hasattr(args, "resolved_dict"):
        return {name: plain(value) for name, value in args.resolved_dict().items()}
    return {one.name: plain(getattr(args, one.name)) for one in dataclasses.fields(args)}


def first_module(*names: str) -> Any:
    """Return the first module that this version has."""
    for name in names[:-1]:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    return importlib.import_module(names[-1])


def ask_vllm(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Go the way of vLLM's server up to its configuration."""
    parsers = first_module("vllm.utils.argparse_utils", "vllm.utils")
    line = first_module("vllm.entrypoints.common.cli_args", "vllm.entrypoints.openai.cli_args")
    engine = importlib.import_module("vllm.engine.arg_utils")
    usage = importlib.import_module("vllm.usage.usage_lib")
    words = list(request["words"])
    parser = parsers.FlexibleArgumentParser(prog="vllm")
    if request["entry"] == "serve":
        line.make_arg_parser(parser.add_subparsers(dest="subparser").add_parser("serve"))
        words = ["serve", *words]
    else:
        parser = line.make_arg_parser(parser)
    answer["stage"] = "parse"
    args = parser.parse_args(words)
    if getattr(args, "model_tag", None) is not None:
        args.model = args.model_tag
    if hasattr(line, "validate_parsed_serve_args"):
        line.validate_parsed_serve_args(args)
    answer["stage"] = "derive"
    config = engine.AsyncEngineArgs.from_cli_args(args).create_engine_config(
        usage_context=usage.UsageContext.OPENAI_API_SERVER
    )
    values: dict[str, Any] = {}
    for section in dataclasses.fields(config):
        part = getattr(config, section.name)
        if not dataclasses.is_dataclass(part) or isinstance(part, type):
            values[section.name] = plain(part)
            continue
        for one in dataclasses.fields(part):
            if not one.name.startswith("hf_"):
                values[f"{section.name}.{one.name}"] = plain(getattr(part, one.name, None), 2)
    return values


def failure(error: BaseException, root: str, said: str) -> dict[str, Any]:
    """Return the engine's own words, and whether it was the engine's own code that said them."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if root and frame.filename.startswith(root)]
    words = str(error)
    if isinstance(error, SystemExit):
        lines = [line for line in said.splitlines() if "error:" in line]
        words = lines[-1] if lines else said[-_WORDS:]
    return {
        "error": type(error).__name__,
        "bases": [base.__name__ for base in type(error).__mro__],
        "code": error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else None,
        "words": words[:_WORDS],
        "where": f"{inside[-1].filename[len(root) + 1 :]}:{inside[-1].lineno}" if inside else "",
        "own": bool(inside)
        and inside[-1] is frames[-1]
        and all(frame.name != "<module>" for frame in inside),
    }


def try_line(request: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine makes of the launch line of a request."""
    answer: dict[str, Any] = {"stage": "import", "values": {}, "notes": [], "version": "", "root": ""}
    said = io.StringIO()
    try:
        surround(request)
        package = importlib.import_module(request["engine"])
        answer["version"] = str(getattr(package, "__version__", ""))
        answer["root"] = str(Path(str(package.__file__)).parent)
        found = devices(request["visible_devices"])
        if found:
            answer_probes(found)
            answer["notes"].append(f"questions about GPUs were answered by nvidia-smi: {len(found)} of them")
        else:
            answer["notes"].append("nvidia-smi names no GPU that this process may use")
        with contextlib.redirect_stderr(said):
            asking = ask_sglang if request["engine"] == "sglang" else ask_vllm
            answer["values"] = asking(request, answer)
        answer["stage"] = "done"
    except BaseException as error:  # noqa: BLE001 - whatever a stranger's code raises is its answer
        answer["failure"] = failure(error, answer["root"], said.getvalue())
    answer["devices"] = len(found) if "found" in locals() else 0
    return answer


def main() -> None:
    """Read the request, keep standard output for the answer alone, and print it."""
    request = json.load(sys.stdin)
    out = os.dup(1)
    os.dup2(2, 1)
    limit(request)
    answer = try_line(request)
    signal.alarm(0)
    text = json.dumps(answer)
    if len(text) > _LARGEST:
        answer["values"] = {}
        answer["notes"].append(f"the values are left out: {len(text)} bytes")
        text = json.dumps(answer)
    with os.fdopen(out, "w") as stream:
        stream.write(text)
    os._exit(0)  # threads that the engine started are not waited for


if __name__ == "__main__":
    main()
