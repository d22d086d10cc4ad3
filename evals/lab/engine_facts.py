"""What the simulated engine is told about its host: a scenario's facts as one JSON object.

Standard library only: this file is also imported inside the sandbox. The launch line is never in here (the
engine takes it from its own argv), and neither is any expected cause or fix. ``/metrics`` is served only when
the launch line says ``--enable-metrics``, as the real server does.

The JSON object holds one key per field of `Scenario`, nested objects per field of the classes below; keys
that have a default may be left out, unknown keys are an error. Example::

    {
      "name": "kimi-k26-pp8",
      "package_dir": "/opt/sglang/venv/lib/python3.11/site-packages/sglang",
      "version": "0.5.11", "startup_s": 1.0, "text_seed": 7, "state_file": "/run/lab/engine.json",
      "hardware": {"gpu_name": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "count": 8,
                   "memory_mib": 97887, "capability": [12, 0], "power_limit_w": 600, "idle_w": 65,
                   "cuda": "13.0", "driver": "580.95.05"},
      "model": {"config": {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": {...}},
                "context_length": 262144, "kv_pool_tokens": 343664, "weights_gib": 554},
      "cost": {}, "noise": {"seed": 1, "relative": 0.03},
      "hazards": {"output_changes": {"when": {"pp_async_batch_depth": {"gt": 1}}}}
    }

The state file (for the stand-in of nvidia-smi) is a JSON object, replaced atomically on change, at most five
times a second::

    {"simulated": true, "pid": 4242, "phase": "loading|capturing|serving|stopped", "at": 1764423727.1,
     "gpus": [{"index": 0, "power_w": 85.1, "utilization": 6, "memory_used_mib": 90012,
               "sm_clock_mhz": 2430, "pstate": "P1"}, ...]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

F = TypeVar("F")


class FactsError(ValueError):
    """Report a scenario whose facts cannot be used: which key, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Describe the GPUs the engine is told it has; all GPUs of a host are alike."""

    gpu_name: str
    count: int
    memory_mib: int
    """Memory of one GPU in MiB, as nvidia-smi's ``memory.total`` says."""
    capability: tuple[int, int]
    """CUDA compute capability, such as ``[12, 0]``."""
    power_limit_w: float = 600.0
    idle_w: float = 65.0
    sm_count: int = 188
    cuda: str = "13.0"
    """``torch.version.cuda`` of the engine's environment."""
    driver: str = "580.95.05"
    max_sm_clock_mhz: int = 2430
    idle_sm_clock_mhz: int = 180
    max_memory_clock_mhz: int = 12481
    lost: tuple[int, ...] = ()
    """GPUs by index that the driver counts and that no longer answer."""
    tenants: tuple[Mapping[str, Any], ...] = ()
    """Other processes on GPUs: ``process`` (pattern of its command line), ``gpu``, ``memory_mib``."""


@dataclass(frozen=True, slots=True)
class Model:
    """Describe the served model; architecture, MLA and multimodality are read from its ``config``."""

    config: Mapping[str, Any]
    """The model's ``config.json``; the engine's argument code reads it as the real one reads the file."""
    context_length: int = 131072
    kv_pool_tokens: int = 400_000
    """Tokens the key-value pool holds: ``max_total_num_tokens`` of the start-up log."""
    weights_gib: float = 0.0
    """Size of all weights; each GPU holds its share (for ``Load weight end`` and the memory shown)."""
    generation_config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold the constants of `evals.lab.cost_model`; the defaults are those of the founding host."""

    shared_gb: float = 20.8
    """Weights read in each step whatever the batch is (attention, shared experts, head), in GB."""
    routed_gb: float = 11.9
    """Weights of the routed experts that one token reads, in GB."""
    routed_ratio: float = 48.0
    """Routed experts in all / routed experts of one token; 1 for a dense model (then set ``routed_gb`` 0)."""
    bandwidth_tb_s: float = 1.56
    """Effective memory bandwidth of one GPU, in TB/s."""
    schedule_ms: float = 1.7
    """Work of the scheduler for one stage and step (P), in ms."""
    launch_ms: float = 3.42
    """Time to launch the kernels of one of ``launch_stages`` stages without CUDA graphs (L), in ms."""
    launch_stages: int = 8
    hop_ms: float = 0.2
    """Time to hand activations to the next stage, in ms; with graphs it also holds the replay."""
    collective_ms: float = 0.068
    """One all-reduce between tensor-parallel GPUs, in ms; two a layer, only with ``tp_size`` above 1."""
    layers: int = 61
    active_w: float = 335.0
    """Watts a GPU draws above idle while its kernels run."""
    prefill_tokens_per_s: float = 7000.0
    context_ms: float = 0.0
    """GPU time that every 1000 cached tokens of a micro-batch add to a step of one stage, in ms."""
    accept_length: float = 1.0
    """Tokens a request gets from one step, with speculative decoding on."""
    graph_gib: float = 1.1
    """Memory of the captured CUDA graphs on each GPU, in GiB."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Seed the small variation of every real host; ``relative`` 0.03 is a standard deviation of 3%."""

    seed: int = 0
    relative: float = 0.03


@dataclass(frozen=True, slots=True)
class CaptureFails:
    """Make the capture of CUDA graphs fail at start while ``when`` holds (and graphs are on at all)."""

    when: Mapping[str, Any]
    """Setting -> value it must have, or ``{"gt"|"ge"|"lt"|"le"|"ne": number}`` or ``{"in": [values]}``."""
    log: tuple[str, ...] = ()
    """Lines printed as they are (after the usual prefix, the traceback included)."""
    exit: int = 1


@dataclass(frozen=True, slots=True)
class OutputChanges:
    """Make the greedy text of every request differ while ``when`` holds (see `CaptureFails.when`)."""

    when: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Irreproducible:
    """Make greedy text leave its course now and then, as sums in another order do; never alone."""

    fraction: float
    """Share of the requests that leave it, of those beside which others run; drawn anew for each."""


@dataclass(frozen=True, slots=True)
class FirstUse:
    """Slow the first work after every start while ``when`` holds: kernels are compiled as they are used."""

    when: Mapping[str, Any]
    busy_s: float
    """Seconds of work that this takes; time without requests does not count."""
    factor: float
    """How much longer each step takes meanwhile."""
    log: tuple[str, ...] = ()
    """Lines printed when the first request comes."""


@dataclass(frozen=True, slots=True)
class Hazards:
    """What can go wrong on this host; none of it knows about expected fixes."""

    capture_fails: CaptureFails | None = None
    output_changes: OutputChanges | None = None
    irreproducible: Irreproducible | None = None
    first_use: FirstUse | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """Hold everything the simulated engine is told; see the module's text for the JSON form."""

    name: str
    package_dir: str
    """Path of the unpacked ``sglang`` package, as the engine process sees it."""
    hardware: Hardware
    model: Model
    version: str = ""
    """Version the package says it has; empty: read from the ``*.dist-info`` folder beside it."""
    cost: Cost = field(default_factory=Cost)
    noise: Noise = field(default_factory=Noise)
    hazards: Hazards = field(default_factory=Hazards)
    startup_s: float = 1.0
    """Seconds from start to ready; weight loading and capture share it."""
    text_seed: int = 0
    state_file: str = ""
    """Where watts and utilisation are published; empty: nowhere."""
    settings_cache: str = ""
    """Folder for effective settings already derived, by digest; empty: derive at every start."""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Scenario:
        """Build the facts from a parsed JSON object; raise `FactsError` for unknown or missing keys."""
        given = dict(raw)
        parts: dict[str, type] = {"hardware": Hardware, "model": Model, "cost": Cost, "noise": Noise}
        for key, kind in parts.items():
            if key in given:
                given[key] = _build(kind, given[key], key)
        hazards = dict(given.get("hazards") or {})
        kinds: dict[str, type] = {
            "capture_fails": CaptureFails,
            "output_changes": OutputChanges,
            "irreproducible": Irreproducible,
            "first_use": FirstUse,
        }
        for key, kind in kinds.items():
            if hazards.get(key) is not None:
                hazards[key] = _build(kind, hazards[key], f"hazards.{key}")
        given["hazards"] = _build(Hazards, hazards, "hazards")
        return _build(cls, given, "scenario")


def hardware(raw: Mapping[str, Any]) -> Hardware:
    """Build a host's hardware from a parsed JSON object; raise `FactsError` for what cannot be used."""
    return _build(Hardware, raw, "hardware")


def _build(kind: Callable[..., F], raw: Any, where: str) -> F:
    if not isinstance(raw, Mapping):
        raise FactsError(f"{where} must be an object, got {type(raw).__name__}")
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(raw) - set(fields))
    if unknown:
        raise FactsError(f"{where}: unknown {', '.join(unknown)}; it knows {', '.join(fields)}")
    missing = [
        name
        for name, f in fields.items()
        if name not in raw and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise FactsError(f"{where}: {', '.join(missing)} missing")
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()}
    return kind(**values)


def holds(when: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Tell whether all conditions of a hazard hold for these effective settings."""
    return all(_matches(settings.get(name), wanted) for name, wanted in when.items())


def _matches(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    checks: dict[str, Callable[[Any], bool]] = {
        "gt": lambda limit: value is not None and value > limit,
        "ge": lambda limit: value is not None and value >= limit,
        "lt": lambda limit: value is not None and value < limit,
        "le": lambda limit: value is not None and value <= limit,
        "ne": lambda other: value != other,
        "in": lambda allowed: value in allowed,
    }
    for name, operand in wanted.items():
        if name not in checks:
            raise FactsError(f"unknown comparison {name!r} in a hazard; use {', '.join(checks)}")
        if not checks[name](operand):
            return False
    return True
