"""Types that every tool shares: its arguments, its context, its output, and what it may keep."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from tools.policy_settings import PolicySettings

if TYPE_CHECKING:
    from tools.artifacts import ArtifactStore

Outcome = Literal[
    "exited", "signaled", "timed_out_killed", "timed_out_orphan", "connection_lost_unknown", "refused"
]
"""How a command ended. Only ``exited`` with code 0 is success; the last three leave its end unknown."""


class ToolError(Exception):
    """Say to the model, in one line, why a call could not be done and what would work instead."""


@dataclass(frozen=True, slots=True)
class Capture:
    """Hold a bounded copy of one output stream: its head, its tail, and how long it really was."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def complete(self) -> bool:
        """Tell whether nothing was left out."""
        return len(self.head) + len(self.tail) == self.total

    @property
    def data(self) -> bytes:
        """Return the kept bytes, with a line that says how many are missing between head and tail."""
        missing = self.total - len(self.head) - len(self.tail)
        if missing <= 0:
            return self.head + self.tail
        return self.head + f"\n[... {missing} bytes left out ...]\n".encode() + self.tail


@dataclass(frozen=True, slots=True)
class Result:
    """Describe how one command on one host ended; ``exit_code`` is set only with ``exited``."""

    host: str
    argv: tuple[str, ...]
    outcome: Outcome
    exit_code: int | None
    signal: str | None
    stdout: Capture
    stderr: Capture
    truncated: bool
    started_at: datetime
    duration_s: float
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Return True only for an exit code of 0 that was really seen."""
        return self.outcome == "exited" and self.exit_code == 0


class Host(Protocol):
    """Run commands on one machine: the only door to it (see ``tools/host.py``)."""

    name: str
    key_fingerprint: str | None

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        """Run ``argv`` and return how it ended; never raise for what happens on the host."""
        ...

    async def forward(self, port: int) -> int:
        """Return a port on our loopback that reaches ``127.0.0.1:port`` on the host."""
        ...

    async def close(self) -> None:
        """Close the connection; commands still running are killed by their marker first."""
        ...


class ArtifactRef(BaseModel):
    """Point to raw output in the artifact store; what a model cites."""

    model_config = ConfigDict(frozen=True)

    handle: str = Field(description="Name inside the investigation, such as t7.1.")
    sha256: str
    size: int
    label: str = Field(description="What it is: a path, or the command that printed it.")
    host: str
    path: str | None = Field(default=None, description="Absolute path, when it is (a range of) a file.")
    package: str | None = None
    version: str | None = None
    first_line: int = Field(default=1, description="Line number, in the file, of the first line kept.")
    complete: bool = Field(default=True, description="False when output was cut or not all was read.")
    taken_at: datetime


class Redactor(Protocol):
    """Mask secrets; called on everything from a host before model, transcript and disk."""

    def __call__(self, data: bytes) -> bytes:
        """Return ``data`` with secrets replaced by stable placeholders, line breaks kept."""
        ...


class ToolSettings(BaseModel):
    """What a site allows the tools to do; filled from the one settings module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow_load: bool = Field(default=False, description="May `benchmark` put load on a server?")
    allow_send_rg: bool = Field(default=False, description="May a static rg be sent to a host without one?")
    allow_in_flight: bool = Field(
        default=False, description="May a change restart a server that is answering requests?"
    )
    allow_container_exec: bool = Field(
        default=False, description="May `run` enter the root of a process, as of one in a container?"
    )
    ask_engine: bool = Field(
        default=False,
        description="May a launch line be tried against the engine's own argument class on its host, in the "
        "process's own interpreter? No model is loaded and no GPU is touched.",
    )
    policy: PolicySettings = Field(
        default_factory=PolicySettings, exclude=True, description="From [policy], not from here."
    )
    view_chars: int = Field(default=12_000, description="Upper bound of the text a model sees of one call.")


@dataclass(slots=True)
class ToolContext:
    """Give one tool call its hosts, its store, its settings, and collect the artifacts it keeps."""

    call_id: str
    hosts: Mapping[str, Host]
    store: ArtifactStore
    redact: Redactor
    settings: ToolSettings
    cache: dict[str, Any] = field(default_factory=dict)
    """Shared by all calls of one investigation, in memory only (parsed sources, process facts)."""
    cache_dir: Path | None = None
    """Where files of packages may be kept between investigations, by sha256; None keeps nothing."""
    progress: Callable[[str], None] = lambda text: None
    artifacts: Mapping[str, ArtifactRef] = field(default_factory=dict)
    """All artifacts kept by earlier calls, by handle, for paging."""
    kept: list[ArtifactRef] = field(default_factory=list)

    def host(self, name: str | None = None) -> Host:
        """Return the named host, or the only one; raise `ToolError` when that is not clear."""
        if name is None and len(self.hosts) == 1:
            return next(iter(self.hosts.values()))
        if name is None or name not in self.hosts:
            raise ToolError(f"name one of the hosts of this investigation: {', '.join(self.hosts)}")
        return self.hosts[name]

    def clean(self, data: bytes) -> bytes:
        """Redact the contents of a file, once for all calls: the same object where nothing is masked."""
        key = f"clean:{hashlib.sha256(data).hexdigest()}"
        if key not in self.cache:
            clean = self.redact(data)
            self.cache[key] = None if clean == data else clean
        kept: bytes | None = self.cache[key]
        return data if kept is None else kept

    def keep(
        self,
        data: bytes,
        *,
        host: str,
        label: str,
        taken_at: datetime,
        path: str | None = None,
        package: str | None = None,
        version: str | None = None,
        first_line: int = 1,
        complete: bool = True,
    ) -> ArtifactRef:
        """Redact ``data``, store it, and return the handle that the model may cite."""
        clean = self.clean(data) if path else self.redact(data)
        ref = ArtifactRef(
            handle=f"{self.call_id}.{len(self.kept) + 1}",
            sha256=self.store.put(clean),
            size=len(clean),
            label=label,
            host=host,
            path=path,
            package=package,
            version=version,
            first_line=first_line,
            complete=complete,
            taken_at=taken_at,
        )
        self.kept.append(ref)
        return ref


class Args(BaseModel):
    """Base of every tool's arguments; the schema the model sees is made from it."""

    model_config = ConfigDict(extra="forbid")


class HostArgs(Args):
    """Base of the arguments of every tool that works on a host."""

    host: str | None = Field(default=None, description="Which host; may be left out when there is only one.")
    process_root: int | None = Field(
        default=None,
        description="PID of a process whose root to look into (a container); default: the host's own.",
    )


A_contra = TypeVar("A_contra", bound=Args, contravariant=True)
A = TypeVar("A", bound=Args)


class ToolRun(Protocol[A_contra]):
    """Do one call: return the view the model sees (JSON types only); raise `ToolError` for the model."""

    def __call__(self, ctx: ToolContext, args: A_contra, /) -> Awaitable[dict[str, Any]]:
        """Run the tool."""
        ...


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """Tie a tool's name and arguments to the function that does it."""

    name: str
    description: str
    args: type[A]
    run: ToolRun[A]
    read_only: bool = True

    def describe(self, raw: Mapping[str, Any]) -> str:
        """Return a one-line description of a call for people, such as ``grep disable_cuda_graph``."""
        words = [f"{key}={value}" for key, value in raw.items() if value is not None and key != "host"]
        return " ".join([self.name, *words])[:200]
