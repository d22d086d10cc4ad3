"""The schema of a described service: what a process of the host does, as rules over its own settings.

A rule states facts of machine and software: under these flags a step takes so long. What a person should
conclude from it, or change, stands nowhere in it. ``docs/scenarios.md`` shows every field by example.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evals.lab import described_rules

Api = Literal["vllm", "sglang", "llamacpp", "ollama"]
Reason = Literal[
    "sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"
]
"""Reasons of a driver for lower clocks, as nvidia-smi names them."""
Number = float | Annotated[str, Field(pattern=r"^@[\w.]+$", description="``@name``: a value by its name.")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Step(_Part):
    """Say how long one decode step takes: a base and a share for each request, or a table by requests."""

    base: Number | None = None
    per_request: Number = 0.0
    at: dict[int, float] = Field(default_factory=dict, description="Requests -> ms; between them a line.")

    @model_validator(mode="after")
    def _one_of(self) -> Step:
        if (self.base is None) != bool(self.at):
            raise ValueError("give exactly one of `base` and `at`")
        return self


class Prefill(_Part):
    """Say how long a prompt takes: its tokens by ``tokens_s``, and ``chunk_ms`` for each chunk of it."""

    tokens_s: Number = 8000.0
    chunk: Number = 8192.0
    chunk_ms: Number = 0.0


class Gpu(_Part):
    """Say what nvidia-smi shows while the service holds its GPUs."""

    count: Number = 1.0
    memory_mib: Number = 0.0
    power_w: Number = Field(default=300.0, description="While it works; idle the hardware's `idle_w`.")
    utilization: Number = 95.0
    clock_mhz: Number | None = Field(default=None, description="While it works; default the highest.")
    first: Number = Field(default=0.0, description="Index of the first GPU it holds.")
    reasons: dict[Reason, Number] = Field(
        default_factory=dict,
        description="What slows the clocks while it works -> microseconds already counted before its start.",
    )


class Log(_Part):
    """Give lines printed while it works: every so many steps or seconds."""

    text: str
    every_steps: int = Field(default=0, ge=0)
    every_s: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _one_of(self) -> Log:
        if bool(self.every_steps) == bool(self.every_s):
            raise ValueError("give exactly one of `every_steps` and `every_s`")
        return self


class Exit(_Part):
    """Make it end while it starts: the last lines (a traceback) and the exit code."""

    text: str = ""
    code: int = Field(default=1, ge=0, le=255)


class Refuse(_Part):
    """Make it answer every request for tokens with an error."""

    status: int = Field(ge=400, le=599)
    message: str


class Effect(_Part):
    """Say what holds while a rule's conditions do; a later rule wins, lines and metrics add up."""

    start: str = Field(default="", description="Lines printed while it starts, in the order of the rules.")
    ready_s: Number | None = Field(default=None, description="Seconds from its start until it answers.")
    silent_s: Number | None = Field(default=None, description="More seconds until then, after its last line.")
    exit: Exit | None = None
    step_ms: Step | Number | None = None
    tokens_per_step: Number | None = Field(default=None, description="With drafts, more than one on average.")
    prefill: Prefill | None = None
    concurrency: Number | None = Field(default=None, description="Requests that run at once; others wait.")
    kv_tokens: Number | None = Field(default=None, description="Tokens that all running requests may hold.")
    prefix_cache: bool | None = None
    stall: bool | None = Field(default=None, description="Requests wait for ever.")
    refuse: Refuse | None = None
    changed_text: bool | None = Field(default=None, description="Greedy text leaves its usual course.")
    gpu: Gpu | None = None
    throttled: Number | None = Field(default=None, description="Share of CPU periods cut off while it works.")
    log: list[Log] = Field(default_factory=list)
    writes: dict[str, int] = Field(
        default_factory=dict,
        description="Path (a template) -> KiB it keeps there once ready; nothing where there is no room.",
    )
    metrics: dict[str, Number] = Field(default_factory=dict, description="More series for /metrics.")
    answers: dict[str, Any] = Field(default_factory=dict, description="Path of a GET -> JSON or text.")


def _conditions(value: Any) -> Any:
    described_rules.check(value)
    return value


class Rule(Effect):
    """Tie an effect to conditions; without any it always holds."""

    when: Annotated[dict[str, Any], BeforeValidator(_conditions)] = Field(default_factory=dict)


class Child(_Part):
    """Name a process that the service starts beside itself, by its command line (templates allowed)."""

    command: str
    exe: str = Field(default="", description="The program it shows as; default the service's own.")


class Service(_Part):
    """Describe one service of the host; its unit stands under ``units`` by the same name."""

    api: Api
    model: str = Field(description="Id that requests name; a template such as ``{--served-model-name}``.")
    version: str = Field(default="", description="What /version says; default the package's.")
    port: str | int = Field(description="A number, or where it is taken from, as in `values`.")
    bind: str = Field(default="127.0.0.1", description="The address, or where it is taken from.")
    context: Number = 32768.0
    values: dict[str, list[str | int | float]] = Field(
        default_factory=dict, description="Name -> where its value comes from; the first that is there."
    )
    rules: dict[str, Rule] = Field(min_length=1, description="By name, for variants; judged in this order.")
    program: str = Field(
        default="", description="Path of a program that is no Python, such as /usr/local/bin/ollama."
    )
    text_seed: int = 0
    noise: float = Field(default=0.02, ge=0, le=0.2, description="Standard deviation of step times.")
    access_log: bool = True
    children: list[Child] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_are_known(self) -> Service:
        named = set(re.findall(r'"@([\w.]+)"', self.model_dump_json()))
        unknown = sorted(n for n in named if not described_rules.known(n, self.values))
        if unknown:
            raise ValueError(
                f"no value named {unknown[0]}; `values` gives {', '.join(self.values) or 'none'}"
            )
        return self


class Disk(_Part):
    """Give a file system of its own: its real size, and what lies on it."""

    mib: int = Field(ge=1, le=64)
    holds: dict[str, int] = Field(default_factory=dict, description="Path below it -> KiB.")


class HostFacts(_Part):
    """Say what the host is besides its GPUs; what is left out is as on the machine the lab runs on."""

    cpus: int | None = Field(default=None, ge=1, le=1024, description="/proc/cpuinfo, /sys, `nproc --all`.")
    cpus_allowed: int | None = Field(default=None, ge=1, description="What `nproc` says.")
    cpu_model: str = "AMD EPYC 9354 32-Core Processor"
    memory_gib: float | None = Field(default=None, gt=0, description="MemTotal of /proc/meminfo.")
    shm_mib: int | None = Field(default=None, ge=1, le=256, description="Real size of /dev/shm.")
    disks: dict[Annotated[str, Field(pattern=r"^/(data|srv|home/lab|var)/[\w./-]+$")], Disk] = Field(
        default_factory=dict, description="Where it is mounted -> what it is; no files of `files` below it."
    )
