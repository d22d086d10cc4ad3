"""A Slack of our own on loopback, for the real slack_bolt and slack_sdk: the documented part of the tests.

    async with FakeSlack() as slack:
        ...  # start the app with slack.api_url, slack.bot_token and slack.app_token
        await slack.socket.connected()
        said = await slack.user("U0ADA").says("C0OPS", f"<@{BOT_USER}> decode is slow on gpu1")
        answer = await slack.message(said.channel, containing="Found", thread=said.ts)
        await slack.user("U0BEN").clicks(answer, "approve")
        print(slack.thread_text(said.channel, said.ts))

One aiohttp application answers ``/api/{method}``, takes uploads and response URLs, and holds the Socket Mode
websocket that ``apps.connections.open`` gives out; with ``slack.socket.http`` set, events come as signed HTTP
requests instead. It refuses what Slack refuses (scopes, membership, lengths, Block Kit, streams that have
ended), by the limits that Slack documents. People act through ``slack.user(id)``; faults are set through
``slack.faults`` (HTTP) and ``slack.socket`` (websocket); every call stays in ``slack.calls``.

| file | what |
|---|---|
| ``fake_slack_world.py`` | people, conversations, messages: three members, two guests, one of another team |
| ``fake_slack_methods.py`` | the Web API |
| ``fake_slack_scopes.py`` | what each method and event needs |
| ``fake_slack_blocks.py`` | what is wrong with blocks and modals |
| ``fake_slack_socket.py`` | Socket Mode and signed HTTP: acknowledgements, redelivery, silence |
| ``fake_slack_manifest.py`` | what is wrong with an app's manifest |
| ``fake_slack_people.py`` | what people do: say, click, choose a shortcut, submit, edit |
| ``fake_slack_faults.py`` | faults in waiting, and the record of calls |
| ``fake_slack_render.py`` | a thread as text and as HTML |

Not there: search, slash commands, Enterprise Grid, user tokens, rate limits unless ``limits`` sets them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

from aiohttp import web

from tests.fake_slack_faults import Call, Fault, Faults
from tests.fake_slack_manifest import CONFIG_TOKEN, manifest_problems
from tests.fake_slack_methods import Methods, Refused, handler
from tests.fake_slack_people import Person
from tests.fake_slack_render import thread_html, thread_text
from tests.fake_slack_scopes import ALL_SCOPES, EVENT_SCOPES, SCOPES, needed
from tests.fake_slack_socket import Socket
from tests.fake_slack_world import Json, World

EVENTS: Final = frozenset(EVENT_SCOPES)
_T = TypeVar("_T")


class FakeSlack:
    """One workspace with one app in it.

    ``limits``: calls a minute that a method may have in one conversation, before 429.
    """

    def __init__(
        self,
        *,
        scopes: Collection[str] = ALL_SCOPES,
        events: Collection[str] = EVENTS,
        stream_seconds: float = 300.0,
        redeliver_after: float = 3.0,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        self.world = World()
        self.scopes = set(scopes)
        self.events = set(events)
        self.limits = dict(limits or {})
        self.faults = Faults()
        self.calls: list[Call] = []
        self.watchers: list[Callable[[Call, Literal["before", "after"]], None]] = []
        """Called before each call has an effect and, with its answer, before that is sent."""
        self.bot_token = "xoxb-fake"
        self.app_token = "xapp-fake"
        self.signing_secret = "fake-signing-secret"
        self.revoked = False
        self.methods = Methods(self.world, stream_seconds=stream_seconds)
        self.socket = Socket(self.world, redeliver_after=redeliver_after)
        self.socket.signing_secret = self.signing_secret
        self._recent: defaultdict[tuple[str, str], deque[float]] = defaultdict(deque)
        self._runner: web.AppRunner | None = None
        self._echoes: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> FakeSlack:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link/{ticket}", self.socket.serve)
        app.router.add_post("/upload/{id}", self._upload)
        app.router.add_post("/response/{id}", self._response)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.methods.base = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in list(self._echoes):
            task.cancel()
        await asyncio.gather(*self._echoes, return_exceptions=True)
        await self.socket.close()
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def api_url(self) -> str:
        """Return what the client takes for ``https://slack.com/api/``."""
        return f"{self.methods.base}/api/"

    def user(self, id: str) -> Person:
        """Return somebody who can act."""
        return Person(self, self.world.members[id])

    # ---- what came of it

    def posts(self, channel: str = "", thread: str = "") -> list[Json]:
        """Return what the app wrote and has not deleted."""
        found = (m for id, c in self.world.channels.items() if channel in ("", id) for m in c.messages)
        return [m for m in found if m.get("bot_id") and thread in ("", m.get("thread_ts"), m["ts"])]

    def called(self, method: str, **args: Any) -> list[Call]:
        """Return the calls of a method with these arguments among theirs."""
        return [
            call
            for call in self.calls
            if call.method == method and all(call.args.get(name) == value for name, value in args.items())
        ]

    def sinks(self) -> Iterator[tuple[str, str]]:
        """Return everything that the app ever sent, with where it went: bodies of calls and of uploads."""
        for call in self.calls:
            yield call.method, json.dumps(call.args, ensure_ascii=False)
        for upload in self.world.uploads.values():
            yield f"file {upload.name}", upload.data.decode("utf-8", "replace")

    async def until(self, look: Callable[[], _T | None], seconds: float = 30.0, what: str = "") -> _T:
        """Return what ``look`` finds as soon as it finds something."""
        end = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > end:
                threads = "\n".join(self.everything())
                raise AssertionError(
                    f"{what or 'this'} was not seen within {seconds:g} s; there is:\n{threads}"
                )
            await asyncio.sleep(0.02)
        return found

    async def message(
        self, channel: str, *, containing: str = "", action: str = "", thread: str = "", seconds: float = 30.0
    ) -> Json:
        """Wait for a message of the app with some text, or a button, and return it as it is shown then."""

        def look() -> Json | None:
            texts = ((json.dumps(m, ensure_ascii=False), m) for m in self.posts(channel, thread))
            return next((deepcopy(m) for text, m in texts if containing in text and action in text), None)

        return await self.until(look, seconds, f"a message with {containing or action!r}")

    async def whispers(self, count: int = 1) -> list[Json]:
        """Wait until so many messages were shown to one person alone, and return them."""
        await self.until(lambda: len(self.world.ephemeral) >= count or None, what=f"{count} whispers")
        return list(self.world.ephemeral)

    def everything(self) -> Iterable[str]:
        """Return every conversation as text."""
        for id, channel in self.world.channels.items():
            for message in channel.messages:
                if message.get("thread_ts", message["ts"]) == message["ts"]:
                    yield self.thread_text(id, message["ts"])

    def thread_text(self, channel: str, ts: str) -> str:
        """Return a thread as a person reads it."""
        return thread_text(self.world, channel, ts)

    def thread_html(self, channel: str, ts: str, since: str = "") -> str:
        """Return a thread, or its end, as a page, of which Chromium makes a picture."""
        return thread_html(self.world, channel, ts, since)

    # ---- HTTP

    async def _api(self, request: web.Request) -> web.StreamResponse:
        args = await _arguments(request)
        header = request.headers.get("Authorization", "").removeprefix("Bearer ")
        call = Call(request.match_info["method"], args, header or str(args.pop("token", "")))
        self.calls.append(call)
        for watcher in self.watchers:
            watcher(call, "before")
        fault = self.faults.take(call.method)
        if fault is not None:
            call.fault = fault.kind
            faulty = await self._faulty(request, call, fault)
            if faulty is not None:
                return faulty
        call.answer = self._answer(call)
        call.status = 429 if call.answer.get("error") == "ratelimited" else 200
        headers = {
            "X-OAuth-Scopes": ",".join(sorted(self.scopes)),
            "X-Slack-Req-Id": self.world.number("req"),
        }
        if call.status == 429:
            headers["Retry-After"] = "1"
        for watcher in self.watchers:
            watcher(call, "after")
        if fault is not None and fault.kind == "cut_after":
            _abort(request)
        return web.json_response(call.answer, status=call.status, headers=headers)

    async def _faulty(self, request: web.Request, call: Call, fault: Fault) -> web.StreamResponse | None:
        """Return the answer of a fault; nothing where the call goes on."""
        if fault.kind == "error":
            call.status, call.answer = 200, {"ok": False, "error": fault.error}
            return web.json_response(call.answer)
        if fault.kind == "status":
            call.status = fault.status
            return web.Response(status=fault.status, text="upstream connect error", content_type="text/html")
        if fault.kind == "ratelimited":
            call.status, call.answer = 429, {"ok": False, "error": "ratelimited"}
            headers = {"Retry-After": str(int(fault.seconds))}
            return web.json_response(call.answer, status=429, headers=headers)
        if fault.kind == "garbage":
            call.status = 200
            return web.Response(text='{"ok": tru', content_type="application/json")
        if fault.kind == "cut":
            _abort(request)
            return web.Response(status=500)
        if fault.kind == "hang":
            await asyncio.sleep(fault.seconds)
        return None

    def _answer(self, call: Call) -> Json:
        try:
            self._admit(call)
            if call.method == "apps.connections.open":
                return {
                    "ok": True,
                    "url": f"{self.methods.base.replace('http', 'ws')}/link/{self.world.number('t')}",
                }
            if call.method == "apps.manifest.validate":
                found = manifest_problems(json.loads(call.args["manifest"]))
                return {"ok": False, "error": "invalid_manifest", "errors": found} if found else {"ok": True}
            answer = handler(self.methods, call.method)
            if answer is None:
                raise Refused("unknown_method", req_method=call.method)
            result = {"ok": True, **answer(call.args)}
        except Refused as refused:
            return refused.answer
        self._echo(call, result)
        return result

    def _admit(self, call: Call) -> None:
        """Refuse a call by its token, its scopes or its rate."""
        app = call.method.startswith("apps.")
        known = {"apps.connections.open": self.app_token, "apps.manifest.validate": CONFIG_TOKEN}
        if not call.token:
            raise Refused("not_authed")
        if call.token != known.get(call.method, self.bot_token):
            raise Refused(
                "not_allowed_token_type" if call.token in (self.app_token, self.bot_token) else "invalid_auth"
            )
        if self.revoked:
            raise Refused("token_revoked")
        if app or call.method not in SCOPES:
            return
        missing = needed(self.world, call.method, call.args) - self.scopes
        if missing:
            raise Refused(
                "missing_scope", needed=",".join(sorted(missing)), provided=",".join(sorted(self.scopes))
            )
        self._slow_down(call)

    def _slow_down(self, call: Call) -> None:
        limit = self.limits.get(call.method)
        if limit is None:
            return
        recent = self._recent[call.method, str(call.args.get("channel"))]
        while recent and call.at - recent[0] > 60:
            recent.popleft()
        if len(recent) >= limit:
            raise Refused("ratelimited")
        recent.append(call.at)

    def _echo(self, call: Call, result: Json) -> None:
        """Let the app hear of its own messages, as Slack does."""
        if call.method not in ("chat.postMessage", "chat.update") or not self.socket.links:
            return
        message = {name: value for name, value in result["message"].items() if name != "markdown"}
        event = message | {"channel": result["channel"]}
        if call.method == "chat.update":
            event = {"type": "message", "subtype": "message_changed", "hidden": True, "message": message,
                     "channel": result["channel"], "ts": self.world.ts()}  # fmt: skip
        person = Person(self, self.world.members[message["user"]])
        task = asyncio.create_task(person.event(self.world.channels[result["channel"]], event, mention=False))
        self._echoes.add(task)
        task.add_done_callback(self._echoes.discard)

    async def _upload(self, request: web.Request) -> web.Response:
        upload = self.world.uploads.get(request.match_info["id"])
        if upload is None:
            return web.Response(status=404)
        if request.content_type == "multipart/form-data":
            parts = await request.post()
            upload.data = next(p.file.read() for p in parts.values() if isinstance(p, web.FileField))
        else:
            upload.data = await request.read()
        return web.Response(text=f"OK - {len(upload.data)}")

    async def _response(self, request: web.Request) -> web.Response:
        found = self.world.responses.get(request.match_info["id"])
        args = await request.json()
        self.calls.append(Call("response_url", args, "", status=200 if found else 404))
        if found is None:
            return web.Response(status=404, text="used_url")
        channel, ts, user = found
        message = self.world.channels[channel].find(ts)
        if args.get("delete_original") and message is not None:
            self.world.channels[channel].messages.remove(message)
        elif args.get("replace_original") and message is not None:
            message.update(self.methods.body(args, 40_000))
        else:
            self.world.ephemeral.append(
                {"channel": channel, "to": user, "thread_ts": args.get("thread_ts"), **args}
            )
        return web.Response(text="ok")


async def _arguments(request: web.Request) -> Json:
    args: Json = dict(request.query)
    if request.content_type == "application/json":
        args |= await request.json()
    elif request.body_exists:
        args |= dict(await request.post())
    return args


def _abort(request: web.Request) -> None:
    if isinstance(request.transport, asyncio.Transport):
        request.transport.abort()
