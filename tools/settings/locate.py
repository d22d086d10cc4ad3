"""Find the package behind a running engine in one command: where it is installed, how, and on what host."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from tools import process as processes
from tools.contract import Host, Result, ToolContext, ToolError
from tools.process import ProcessFacts
from tools.settings import fetch
from tools.settings.fetch import Frames
from tools.settings.kept_sources import KeptSources
from tools.settings.remote import Place, RemoteTree
from tools.settings.source import MARKS
from tools.settings.types import Engine

_LIMIT_S: Final = 30.0
_MAX_BYTES: Final = 16 << 20
_CONTAINER = re.compile(r"docker|containerd|kubepods|libpod|podman|crio|lxc|machine\.slice")
_TICKS: Final = 100  # USER_HZ: fixed by Linux's interface, whatever the kernel's own tick is


@dataclass(frozen=True, slots=True)
class Install:
    """Hold one place where the interpreter of the process could find the package."""

    way: str
    """What puts it on the search path: ``environment``, ``PYTHONPATH``, ``user site``, a .pth file."""
    site: str
    package: str
    version: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """Hold the git checkout that the package lies in; ``sha`` is empty where HEAD could not be followed."""

    folder: str
    head: str
    sha: str


@dataclass(frozen=True, slots=True)
class Location:
    """Hold where the package of a process is and what the host is like that it runs on."""

    process: ProcessFacts
    root: str = ""
    """Prefix of the process's own file system (``/proc/PID/root``); empty for the host's."""
    environment: str = "system"
    """``venv``, ``uv venv``, ``uv tool``, ``conda``, ``system``."""
    started_as: str = ""
    site: str = ""
    info: str = ""
    installer: str = ""
    editable: str = ""
    """The file that points to the source, for an editable install."""
    checkout: Checkout | None = None
    others: tuple[Install, ...] = ()
    """Further installs of the package, which this process does not use."""
    container: bool = False
    unit: str = ""
    started_at: float = 0.0
    """Seconds since 1970."""
    output: str = ""
    """The file that standard output goes to, where it is one."""
    variables: frozenset[str] | None = None
    """Names of all variables of the process; None when they may not be read."""
    records: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What else the host said: ``gpus``, ``gfx``, ``torch``, ``packages``, ``model:config.json`` ..."""
    notes: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """Return the folder of the package; empty when it was not found."""
        return self.process.package_root or ""


@cache
def _script() -> str:
    folder = Path(__file__).parent
    parts = [folder.parent / "process.sh", folder / "locate.sh"]
    return "\n".join([fetch.opening(), *(part.read_text() for part in parts), fetch.script()])


async def locate(
    ctx: ToolContext, host: Host, pid: int | None = None, process_root: int | None = None
) -> tuple[Location, RemoteTree]:
    """Find the package of an engine process and open it; kept in the cache while the process lives.

    Raise `ToolError` where there is no process, or no source that could be read: what was looked for is said.
    """
    key = f"location:{host.name}:{pid}:{process_root}"
    if key in ctx.cache:
        kept: tuple[Location, RemoteTree] = ctx.cache[key]
        return kept
    sources = KeptSources(ctx.cache_dir / "sources" if ctx.cache_dir else None)
    location, result, frames = await _look(host, sources, pid, process_root)
    if location.container and not location.root:
        entered = await _inside(host, sources, location)
        location, result, frames = entered or (location, result, frames)
    ctx.cache[f"process:{host.name}:{pid}:{process_root}"] = location.process
    tree = RemoteTree(host, _place(host, location, frames), sources)
    tree.take(result, frames)
    found = (location, tree)
    for one in (pid, location.process.pid):
        ctx.cache[f"location:{host.name}:{one}:{process_root}"] = found
    return found


async def _look(
    host: Host, sources: KeptSources, pid: int | None, process_root: int | None
) -> tuple[Location, Result, Frames]:
    mark = uuid.uuid4().hex
    root = f"/proc/{process_root}/root" if process_root else ""
    # Which engine it is shows only there: what each wants first is asked for, a name not there costs nothing.
    engines = list(MARKS)
    wanted = dict.fromkeys(path for engine in engines for path in sources.wanted(engine))
    known = [digest for engine in engines for digest in sources.known(engine)]
    result = await host.exec(
        ["sh", "-c", _script(), "locate", str(pid or ""), root, mark, str(fetch.MAX_SENT)],
        timeout_s=_LIMIT_S,
        max_bytes=_MAX_BYTES,
        stdin=fetch.asking(wanted, known=known, listing=True),
        retry=True,
    )
    if not result.ok:
        raise ToolError(f"cannot look at processes on {host.name}: {result.outcome} {result.detail}".rstrip())
    output = result.stdout.data
    text, _, _ = output.partition(f"@@{mark} ".encode())
    records, denied = processes.read_records(text)
    facts = await processes.described(host, pid, records, denied)
    words = {name: value.decode("utf-8", "replace") for name, value in records.items()}
    return _location(facts, words, root), result, fetch.decode(output, mark)


async def _inside(
    host: Host, sources: KeptSources, outside: Location
) -> tuple[Location, Result, Frames] | None:
    """Look again through the root of a process in a container; None when this account may not."""
    pid = outside.process.pid
    location, result, frames = await _look(host, sources, pid, pid)
    if not location.package or frames.problem:
        return None
    note = (
        f"the process runs in a container: its files are read through /proc/{pid}/root, nothing is run in it"
    )
    return dataclasses.replace(location, notes=(*location.notes, note)), result, frames


def _location(facts: ProcessFacts, records: Mapping[str, str], root: str) -> Location:
    own, _, ours = records.get("namespaces", "").strip().partition(" ")
    installs = [
        Install(*row.split("\t")) for row in records.get("installs", "").splitlines() if row.count("\t") == 3
    ]
    package = facts.package_root or ""
    mine = next((one for one in installs if _same(one.package, package)), None)
    others = {one.package: one for one in reversed(installs) if not _same(one.package, package)}
    names = records.get("names")
    output = records.get("output", "")
    cgroup = records.get("cgroup", "")
    return Location(
        process=facts,
        root=root,
        environment=_environment(facts, records),
        started_as=_started_as(facts.argv),
        site=mine.site if mine else package.rpartition("/")[0],
        info=records.get("info", ""),
        installer=records.get("installer", "").strip(),
        editable=mine.way if mine and mine.site != package.rpartition("/")[0] else "",
        checkout=_checkout(records.get("git", "")),
        others=tuple(reversed(others.values())),
        container=bool(own and ours and own != ours and _CONTAINER.search(cgroup)),
        unit=_unit(cgroup),
        started_at=_started_at(facts, records),
        output=output if output.startswith("/") and not output.startswith("/dev/") else "",
        variables=frozenset(names.split()) if names and "denied environ" not in facts.not_permitted else None,
        records={name: text for name, text in records.items() if name not in _PROCESS_RECORDS},
        notes=facts.notes,
    )


_PROCESS_RECORDS: Final = frozenset({"cmdline", "environ", "server_info", "stat", "status", "mains"})


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


def _environment(facts: ProcessFacts, records: Mapping[str, str]) -> str:
    if "/uv/tools/" in facts.interpreter:
        return "uv tool"
    if "venv" in records:
        return "uv venv" if re.search(r"^uv *=", records["venv"], re.MULTILINE) else "venv"
    return "conda" if "conda" in records else "system"


def _started_as(argv: tuple[str, ...]) -> str:
    """Say how the engine was started: as a module, by a script's path, by a console script, by a launcher."""
    for place, word in enumerate(argv[1:], 1):
        if word in ("torch.distributed.run", "torch.distributed.launch") or word.endswith("/torchrun"):
            return "torchrun"
        if argv[place - 1] == "-m":
            return f"python -m {word}"
        if word.endswith(".py"):
            return f"python {word.rpartition('/')[2]}"
        if word == "serve":
            return f"{argv[place - 1].rpartition('/')[2]} serve"
    return ""


def _checkout(text: str) -> Checkout | None:
    values = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    if "folder" not in values:
        return None
    head = values.get("head", "").strip()
    sha = values.get("sha", "").strip() or (head if re.fullmatch(r"[0-9a-f]{40}", head) else "")
    return Checkout(values["folder"], head.removeprefix("ref: refs/heads/"), sha)


def _unit(cgroup: str) -> str:
    from tools.facts_parse import cgroup_unit

    return cgroup_unit(cgroup.splitlines()) or ""


def _started_at(facts: ProcessFacts, records: Mapping[str, str]) -> float:
    found = re.search(r"btime (\d+)", records.get("btime", ""))
    return int(found[1]) + facts.start_time / _TICKS if found else 0.0


def _place(host: Host, location: Location, frames: Frames) -> Place:
    """Return where the source lies; raise `ToolError` that says what was looked for when there is none."""
    facts = location.process
    if facts.engine not in MARKS:
        raise NoSource(f"{facts.engine} keeps its settings in no Python source", location, offer="")
    if not location.package:
        looked = ", ".join(dict.fromkeys(one.site for one in location.others)) or "its site-packages folders"
        what = (
            f"no folder {facts.package} with an __init__.py for process {facts.pid} ({facts.interpreter}): "
        )
        raise NoSource(f"{what}looked along PYTHONPATH, its working directory, {looked}", location)
    if frames.problem:
        raise NoSource(f"{location.package} of process {facts.pid}: {frames.problem}", location)
    engine: Engine = facts.engine  # type: ignore[assignment]  # it is one of MARKS
    marks = MARKS[engine]
    if not {row.path for row in frames.rows} >= set(marks):
        ends = "compiled or stripped" if not frames.paths else "of a layout that is not known"
        raise NoSource(f"{location.package} has no {marks[0]}: it is {ends}", location)
    return Place(engine, facts.version or "", location.package, location.info, location.root)


class NoSource(ToolError):
    """Say that the source of a running engine cannot be read, and what could stand in for it."""

    def __init__(self, what: str, location: Location, *, offer: str | None = None) -> None:
        self.location = location
        facts = location.process
        if offer is None:
            pinned = f"{facts.package}=={facts.version}" if facts.version else facts.package
            offer = (
                f"; the wheel of the same version can stand in: `pip download --no-deps {pinned}`, unpack it "
                "and give its folder as --stand-in DIR"
            )
        super().__init__(f"{what}{offer}")
