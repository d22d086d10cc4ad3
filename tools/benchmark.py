"""Measure an OpenAI-compatible server at given concurrencies, with GPU power and server metrics beside it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from tools import bounded_http, load, load_watch
from tools.contract import Args as ToolArgs
from tools.contract import Host, Tool, ToolContext, ToolError
from tools.host import ConnectError
from tools.intervals import spread
from tools.load import Api, Sample, Target
from tools.load_watch import Watch

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_MAX_REQUESTS = 4096


class Args(ToolArgs):
    """Say what to measure."""

    host: str | None = Field(default=None, description="Which host; may be left out when there is only one.")
    port: int = Field(default=30000, ge=1, le=65535, description="Where the server listens on the host.")
    model: str | None = Field(default=None, description="Default: the first of /v1/models.")
    concurrency: list[Annotated[int, Field(ge=1, le=512)]] = Field(default=[1, 8], min_length=1, max_length=8)
    requests: int = Field(default=2, ge=1, le=64, description="Requests for each unit of concurrency.")
    max_tokens: int = Field(default=64, ge=1, le=4096)
    input_tokens: int = Field(default=128, ge=1, le=32_768, description="Approximate length of a prompt.")
    repeats: int = Field(default=1, ge=1, le=20)
    spread: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Repeat a level until the 99 % interval of its decode speed is within this share.",
    )
    max_repeats: int = Field(default=9, ge=1, le=20, description="With `spread`: no more than so many.")
    warmup: int = Field(default=1, ge=0, le=8, description="Rounds before each level; not counted.")
    seed: int = 0
    control: bool = Field(
        default=False,
        description="Send the prompts of each level's first run again, not counted: are outputs the same?",
    )
    allow_busy: bool = Field(default=False, description="Measure although requests of others are in flight.")

    @model_validator(mode="after")
    def _bounded(self) -> Args:
        if sum(self.concurrency) * self.requests * (self.most_repeats + self.control) > _MAX_REQUESTS:
            raise ValueError(f"more than {_MAX_REQUESTS} requests")
        return self

    @property
    def most_repeats(self) -> int:
        """Return how many runs a level has at most."""
        return self.repeats if self.spread is None else max(self.repeats, self.max_repeats)

    def enough(self, speeds: Sequence[float]) -> bool:
        """Tell whether a level with these decode speeds needs no further run."""
        if len(speeds) < self.repeats or self.spread is None:
            return len(speeds) >= self.repeats
        found = spread(speeds)
        return len(speeds) >= self.most_repeats or (found is not None and found <= self.spread)


async def _model(client: AsyncClient, args: Args, where: str) -> str:
    import httpx2

    try:
        response = await bounded_http.get(client, "/v1/models", timeout=20.0)
        if response.status_code in (401, 403):
            raise ToolError(f"the server on {where} asks for an API key; `benchmark` has none to give")
        listed = response.json()["data"] if response.status_code == 200 else []
        return args.model or str(listed[0]["id"])
    except httpx2.HTTPError as error:
        raise ToolError(
            f"nothing answers on {where} ({type(error).__name__}); `facts` shows which ports are open"
        ) from error
    except (ValueError, LookupError, TypeError) as error:
        raise ToolError(
            f"the server on {where} lists no model at /v1/models; name one with `model`"
        ) from error


async def _refuse_to_disturb(client: AsyncClient, args: Args, where: str) -> str | None:
    """Raise when others are being served; return a remark when the server does not tell."""
    running = queued = 0.0
    for attempt in range(3):  # the gauges are written now and then: an old value may still stand there
        values = await load_watch.metrics(client)
        busy = load_watch.in_flight(values) if values else None
        if busy is None:
            return "the server has no readable /metrics: whether others were being served is not known"
        running, queued = busy
        if not any(busy):
            return None
        if args.allow_busy:
            return f"measured beside {running:g} running and {queued:g} queued requests of others"
        if attempt < 2:
            await asyncio.sleep(1.0)
    raise ToolError(
        f"{where} is serving others ({running:g} running, {queued:g} queued); "
        "wait until they are done, or set allow_busy when disturbing them is acceptable"
    )


async def _target(client: AsyncClient, args: Args, where: str) -> Target:
    """Return the API that answers a one-token request: completions, else chat."""
    model = await _model(client, args, where)
    said = ""
    apis: tuple[Api, ...] = ("/v1/completions", "/v1/chat/completions")
    for api in apis:
        sample = await load.request(Target(client, model, api, 1, args.seed), "probe", 8)
        if sample.error is None:
            return Target(client, model, api, args.max_tokens, args.seed)
        said = said or sample.error
    raise ToolError(f"the server on {where} does not complete a one-token request: {said}")


def _short(target: Target) -> Target:
    """Return what a warm-up asks for: a few steps load all that a step needs."""
    return dataclasses.replace(target, max_tokens=min(target.max_tokens, max(8, target.max_tokens // 4)))


def _keys(args: Args, concurrency: int, label: str) -> list[str]:
    return [f"c{concurrency}.{label}.{number}" for number in range(concurrency * args.requests)]


async def _run_levels(ctx: ToolContext, args: Args, target: Target) -> dict[str, Any]:
    measured: dict[str, Any] = {"runs": [], "outputs": {}, "requests": []}
    if args.control:
        measured["outputs_again"] = {}
    for concurrency in args.concurrency:
        for number in range(args.warmup):
            ctx.progress(f"concurrency {concurrency}: warm-up {number + 1} of {args.warmup}")
            keys = [f"c{concurrency}.w{number}.{at}" for at in range(concurrency)]
            await load.level(_short(target), keys, args.input_tokens, concurrency, lambda done: None)
        speeds: list[float] = []
        while not args.enough(speeds):
            samples = await _repeat(ctx, args, target, concurrency, len(speeds) + 1, measured)
            if not measured["runs"][-1]["completed"]:
                return {**measured, "stopped": _why(samples)}
            speeds.append(measured["runs"][-1]["tok_s_per_request"] or 0.0)
        if args.control:
            measured["outputs_again"] |= await _again(ctx, args, target, concurrency)
    return measured


async def _repeat(
    ctx: ToolContext, args: Args, target: Target, concurrency: int, repeat: int, measured: dict[str, Any]
) -> list[Sample]:
    """Run a level once, add its figures to what was measured, and return its requests."""
    keys = _keys(args, concurrency, f"r{repeat}")
    further = "" if repeat <= args.repeats else f" (further, as they differ; at most {args.most_repeats})"
    head = f"concurrency {concurrency}, run {repeat} of {max(repeat, args.repeats)}{further}"

    def done(count: int) -> None:
        ctx.progress(f"{head}: {count} of {len(keys)} requests done")

    samples, start, end = await load.level(target, keys, args.input_tokens, concurrency, done)
    run = {"concurrency": concurrency, "repeat": repeat, **load.summary(samples, end - start)}
    measured["runs"].append({**run, "window": (start, end)})
    measured["requests"] += [sample.row() for sample in samples]
    measured["outputs"] |= {sample.key: sample.digest for sample in samples if sample.error is None}
    return samples


async def _again(ctx: ToolContext, args: Args, target: Target, concurrency: int) -> dict[str, str]:
    """Send the prompts of a level's first run once more and return the digests of what comes back."""
    head = f"concurrency {concurrency}, the first run again"
    keys = _keys(args, concurrency, "r1")

    def done(count: int) -> None:
        ctx.progress(f"{head}: {count} of {len(keys)} requests done")

    samples, _, _ = await load.level(target, keys, args.input_tokens, concurrency, done)
    return {sample.key: sample.digest for sample in samples if sample.error is None}


def _not_reproduced(measured: dict[str, Any]) -> list[str]:
    """Return a remark for each level that answered the same prompts in two ways."""
    counts: dict[str, list[bool]] = {}
    for key, digest in measured.get("outputs_again", {}).items():
        if key in measured["outputs"]:
            counts.setdefault(key.partition(".")[0], []).append(measured["outputs"][key] != digest)
    return [
        f"concurrency {level.removeprefix('c')}: {sum(found)} of {len(found)} greedy outputs differed "
        "between two runs of the same configuration"
        for level, found in counts.items()
        if any(found)
    ]


def _why(samples: list[Sample]) -> str:
    return f"no request of the last run was completed: {samples[0].error if samples else 'none was sent'}"


def _with_watch(measured: dict[str, Any], watch: Watch) -> None:
    for run in measured["runs"]:
        start, end = run.pop("window")
        run["gpu"] = watch.gpu_between(start, end)
        run["server"] = watch.server_between(start, end)


def _bounded_view(view: dict[str, Any], limit: int) -> dict[str, Any]:
    for field in ("server", "gpu", "error_kinds"):
        if len(json.dumps(view)) <= limit:
            return view
        for run in view["runs"]:
            run.pop(field, None)
        view["cut"] = f"detail of the runs is left out here; all of it stands in {view['artifact']}"
    while len(json.dumps(view)) > limit and len(view["runs"]) > 1:
        view["runs"] = view["runs"][: len(view["runs"]) // 2]
    return view


async def _measure(ctx: ToolContext, host: Host, args: Args, stack: AsyncExitStack) -> dict[str, Any]:
    import httpx2

    where = f"{host.name}:{args.port}"
    try:
        local = await host.forward(args.port)
    except ConnectError as error:
        raise ToolError(str(error)) from error
    peak = max(args.concurrency) + 4
    client = await stack.enter_async_context(
        httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{local}",
            timeout=httpx2.Timeout(120.0, connect=10.0),
            limits=httpx2.Limits(max_connections=peak, max_keepalive_connections=peak),
            trust_env=False,  # a proxy of ours is no way to a port on the host
            verify=False,  # plain HTTP: certificates would be loaded for nothing
        )
    )
    model = await _model(client, args, where)
    remark = await _refuse_to_disturb(client, args, where)
    target = await _target(client, args.model_copy(update={"model": model}), where)
    async with Watch(host, client).running() as watch:
        measured = await _run_levels(ctx, args, target)
    _with_watch(measured, watch)
    notes = [note for note in (remark, watch.gpu_note, measured.pop("stopped", None)) if note]
    notes += _not_reproduced(measured)
    return {"model": target.model, "api": target.api, "notes": notes, **measured}


async def run(ctx: ToolContext, args: Args) -> dict[str, Any]:
    """Measure unless the site or the server's other users forbid it; keep all numbers as an artifact."""
    host = ctx.host(args.host)
    if not ctx.settings.allow_load:
        raise ToolError(
            "this site does not allow load: give --allow-load, or set `allow_load = true` under [tools] in "
            "the configuration"
        )
    taken_at = datetime.now(UTC)
    async with AsyncExitStack() as stack:
        measured = await _measure(ctx, host, args, stack)
    whole = {
        "host": host.name,
        "port": args.port,
        "taken_at": taken_at.isoformat(timespec="seconds"),
        **measured,
        "arguments": args.model_dump(exclude={"host"}),
        "definitions": load.DEFINITIONS,
    }
    ref = ctx.keep(
        json.dumps(whole, indent=1, ensure_ascii=False).encode() + b"\n",
        host=host.name,
        label=f"benchmark of port {args.port}",
        taken_at=taken_at,
    )
    shown = {"host": host.name, "port": args.port, "model": measured["model"], "artifact": ref.handle}
    outputs = "greedy outputs are kept as digests under `outputs` in the artifact, by prompt"
    if args.control:
        outputs += "; those of the prompts sent again under `outputs_again`"
    runs = [dict(row) for row in measured["runs"]]
    return _bounded_view(
        {**shown, "notes": measured["notes"], "outputs": outputs, "runs": runs}, ctx.settings.view_chars
    )


TOOL = Tool(
    name="benchmark",
    description=(
        "Put load on an OpenAI-compatible server of a host and measure TTFT, ITL, TPOT and tok/s at given "
        "concurrencies; GPU power and the server's own gauges are sampled beside it. The site must allow it."
    ),
    args=Args,
    run=run,
)
