"""Check the model endpoint: reached, key, name; then what the model can do, by one tiny request each."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ValidationError

from agent.config import Settings, with_model
from agent.errors import LeadlineError
from agent.models import ToolSchema
from agent.models.faults import shown_url
from agent.models.listing import listed
from agent.models.openai import OpenAIModel
from agent.models.select import PLAYBOOK, model_of
from agent.state import AssistantTurn, Message
from agent.surfaces.doctor_clock import of_answer
from agent.surfaces.doctor_types import Check, broken, ok, skipped, warning
from agent.whole_file import put_whole

FRESH_S = 86_400.0
"""How long what a model can do is believed; it changes when the server is started anew."""

_SHOWN = 10
_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Write one word down.",
        "parameters": {
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": False,
        },
    },
}
_ONE = "Call the tool `note` once, with the word ready. Say nothing else."
_TWO = "Call the tool `note` twice in this one turn: with the word left and with the word right."
_WORD = "Answer with the one word ready."


class Learnt(BaseModel):
    """Hold what was learnt of a model, for the next time."""

    at: float
    checks: list[Check]


async def check_model(settings: Settings, *, fresh: bool) -> list[Check]:
    """Return what is to be said of the model in force."""
    if settings.model == PLAYBOOK:
        return [ok("model", "the built-in playbooks, which need no endpoint")]
    try:
        model_of(settings)
    except LeadlineError as error:
        return [broken("model", error.what, error.do)]
    found, *clock = await _listed("model", settings)
    if found.verdict == "broken":
        return [found, skipped("capabilities", "the endpoint does not serve this model"), *clock]
    return [found, *await _able(settings, fresh=fresh), *clock]


async def check_named(settings: Settings) -> list[Check]:
    """Return what is to be said of the other models that the settings name: whether each is served."""
    others = [name for name in settings.models if name != settings.named_model]

    async def one(name: str) -> list[Check]:
        about = f"models.{name}"
        try:
            named = with_model(settings, name)
            model_of(named)
        except LeadlineError as error:
            return [broken(about, error.what, error.do)]
        return await _listed(about, named)

    return [check for checks in await asyncio.gather(*map(one, others)) for check in checks]


async def _listed(about: str, settings: Settings) -> list[Check]:
    """Return whether the model is served, then what the answer tells of the clocks."""
    asked = datetime.now(UTC)
    try:
        found = await listed(settings)
    except LeadlineError as error:
        return [broken(about, error.what, error.do)]
    at = shown_url(settings.base_url) if settings.base_url else "OpenAI's own endpoint"
    return [_among(about, settings, found.names, at), *of_answer(at, found.headers, asked)]


def _among(about: str, settings: Settings, names: Sequence[str], at: str) -> Check:
    if settings.model in names:
        return ok(about, f"{settings.model} is served at {at}")
    if not names:
        return warning(about, f"{at} lists no models, so the name {settings.model} is not checked")
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return broken(about, f"{at} does not list {settings.model}", f"name one that it serves: {shown}")


async def _able(settings: Settings, *, fresh: bool) -> list[Check]:
    kept = _kept(settings)
    if not fresh:
        learnt = _read(kept)
        if learnt is not None:
            hours = (time.time() - learnt.at) / 3600
            said = f"learnt {hours:.0f} h ago; --fresh asks again"
            return [check.model_copy(update={"says": f"{check.says} ({said})"}) for check in learnt.checks]
    quick = settings.model_copy(
        update={"model_retries": 0, "model_start_s": min(settings.model_start_s, 60.0)}
    )
    whole = quick.model_copy(update={"model_stream": False})
    checks = list(await asyncio.gather(_tools(whole), _parallel(whole), _stream(quick), _reasons(whole)))
    if all(check.verdict != "skipped" for check in checks):
        _keep(kept, Learnt(at=time.time(), checks=checks))
    return checks


async def _turn(
    settings: Settings, text: str, *, tools: bool, heard: Callable[[str], None] = lambda text: None
) -> tuple[AssistantTurn, OpenAIModel]:
    model = OpenAIModel(settings)
    said: list[Message] = [{"role": "user", "content": text}]
    return await model.next_turn(said, [_TOOL] if tools else [], heard), model


async def _asked(about: str, ask: Callable[[], Awaitable[Check]]) -> Check:
    """Return what a request showed; an endpoint that fails it is no answer about the model."""
    try:
        return await ask()
    except LeadlineError as error:
        if "tool" in error.what.lower():
            return broken(about, error.what, error.do)
        return Check(about=about, verdict="skipped", says=error.what, do=error.do)


async def _tools(settings: Settings) -> Check:
    about = "tool calls"

    async def ask() -> Check:
        turn, _ = await _turn(settings, _ONE, tools=True)
        if not turn.tool_calls:
            said = turn.text.strip()[:80] or "nothing"
            return broken(about, f"it answered in words ({said!r})", "start it with its tool call parser")
        try:
            arguments = json.loads(turn.tool_calls[0].arguments)
        except ValueError:
            return broken(about, "their arguments are no JSON", "start it with its own tool call parser")
        if not isinstance(arguments, dict) or "word" not in arguments:
            return warning(about, f"called, but with {str(arguments)[:80]} instead of a word")
        return ok(about, "called as asked")

    return await _asked(about, ask)


async def _parallel(settings: Settings) -> Check:
    about = "parallel tool calls"

    async def ask() -> Check:
        turn, _ = await _turn(settings, _TWO, tools=True)
        count = len(turn.tool_calls)
        if count > 1:
            return ok(about, f"{count} in one turn")
        return warning(about, f"{count} where two were asked for: an investigation takes more turns")

    return await _asked(about, ask)


async def _stream(settings: Settings) -> Check:
    about = "streaming"
    if not settings.model_stream:
        return ok(about, "switched off by the settings")

    async def ask() -> Check:
        pieces: list[str] = []
        _, model = await _turn(settings, _WORD, tools=False, heard=pieces.append)
        if not model.streams:
            return warning(about, "the endpoint refuses it; answers come whole", "set model_stream = false")
        return ok(about, f"{len(pieces)} pieces")

    return await _asked(about, ask)


async def _reasons(settings: Settings) -> Check:
    about = "reasoning"

    async def ask() -> Check:
        turn, _ = await _turn(settings, _WORD, tools=False)
        if turn.reasoning:
            return ok(about, "thoughts come in a field of their own")
        if "<think>" in turn.text or "</think>" in turn.text:
            do = "start it with its reasoning parser (SGLang and vLLM: --reasoning-parser)"
            return warning(about, "thoughts stand inside the answer", do)
        return ok(about, "no thoughts beside the answer")

    return await _asked(about, ask)


def _kept(settings: Settings) -> Path:
    name = hashlib.sha256(
        f"{settings.base_url}\n{settings.model}\n{settings.model_stream}".encode()
    ).hexdigest()
    return settings.state_dir / "doctor" / f"{name[:32]}.json"


def _read(path: Path) -> Learnt | None:
    try:
        learnt = Learnt.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return learnt if 0 <= time.time() - learnt.at < FRESH_S else None


def _keep(path: Path, learnt: Learnt) -> None:
    try:
        path.unlink(missing_ok=True)
        put_whole(path, learnt.model_dump_json().encode())
    except OSError:
        return  # the check of the state folder says what is wrong there
