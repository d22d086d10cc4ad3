"""How the fake Slack reaches the app: Socket Mode (or signed HTTP), acknowledgements, redelivery, silence."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlencode

from aiohttp import ClientSession, ClientTimeout, WSMsgType, web

from tests.fake_slack_world import APP, Json, World

EnvelopeType = Literal["events_api", "interactive"]
Reason = Literal["warning", "refresh_requested", "link_disabled", "too_many_websockets"]


@dataclass(eq=False)
class Delivery:
    """One thing that happened, as it was sent to the app, once or several times."""

    type: EnvelopeType
    payload: Json
    envelope_id: str
    sent: list[float] = field(default_factory=list)
    acks: list[float] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Json | None = None

    @property
    def delay(self) -> float:
        """Return the seconds from the first sending to the first acknowledgement."""
        return self.acks[0] - self.sent[0]

    async def acked(self, seconds: float = 10.0) -> Delivery:
        """Wait for the acknowledgement."""
        async with asyncio.timeout(seconds):
            await self.done.wait()
        return self


@dataclass(eq=False)
class Link:
    """One websocket of the app; ``deaf``: answers pings and carries nothing; ``silent``: nothing at all."""

    socket: web.WebSocketResponse
    transport: asyncio.BaseTransport | None
    silent: bool = False
    deaf: bool = False
    pongs: int = 0

    @property
    def open(self) -> bool:
        """Tell whether something sent would arrive."""
        return not (self.socket.closed or self.silent or self.deaf)


class Socket:
    """Every way from Slack to the app.

    ``redeliver_after``: seconds without an acknowledgement until an event comes again, three times at most.
    """

    def __init__(self, world: World, *, redeliver_after: float = 3.0) -> None:
        self.world = world
        self.redeliver_after = redeliver_after
        self.links: list[Link] = []
        self.deliveries: list[Delivery] = []
        self.waiting: list[Delivery] = []
        self.held: list[Delivery] | None = None
        self.http = ""
        self.signing_secret = ""
        self._by_envelope: dict[str, Delivery] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._turn = 0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Hold one websocket of the app until either side ends it."""
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        link = Link(socket, request.transport)
        self.links.append(link)
        hello = {
            "type": "hello", "num_connections": len(self.links), "connection_info": {"app_id": APP},
            "debug_info": {"host": "applink-fake", "build_number": 1, "approximate_connection_time": 18060},
        }  # fmt: skip
        await socket.send_json(hello)
        waiting, self.waiting = self.waiting, []
        for delivery in waiting:
            await self.send(delivery)
        async for message in socket:
            await self._received(link, message.type, message.data)
        self.links.remove(link)
        return socket

    async def _received(self, link: Link, kind: WSMsgType, data: object) -> None:
        if kind is WSMsgType.PING and not link.silent:
            assert isinstance(data, bytes | bytearray)
            await link.socket.pong(bytes(data))
        elif kind is WSMsgType.PONG:
            link.pongs += 1
        elif kind is WSMsgType.TEXT:
            said = json.loads(str(data))
            self._acked(self._by_envelope[said["envelope_id"]], said.get("payload"))

    def _acked(self, delivery: Delivery, answer: Json | None) -> None:
        delivery.acks.append(time.monotonic())
        if answer is not None:
            delivery.answer = answer
        delivery.done.set()

    async def deliver(self, type: EnvelopeType, payload: Json) -> Delivery:
        """Send something new, and again until it is acknowledged."""
        delivery = Delivery(type, payload, self.world.number("env-"))
        self.deliveries.append(delivery)
        if self.held is not None:
            self.held.append(delivery)
            return delivery
        await self.send(delivery)
        if type == "events_api" and not delivery.done.is_set():
            task = asyncio.create_task(self._watch(delivery))
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)
        return delivery

    async def send(self, delivery: Delivery, *, reason: str = "", same_envelope: bool = True) -> None:
        """Send one envelope; what cannot be sent now waits for the next connection."""
        retry = {"retry_attempt": len(delivery.sent), "retry_reason": reason}
        if not same_envelope:
            delivery.envelope_id = self.world.number("env-")
        self._by_envelope[delivery.envelope_id] = delivery
        if self.http:
            await self._post(delivery, reason)
            return
        links = [link for link in self.links if link.open]
        if not links:
            if delivery not in self.waiting:
                self.waiting.append(delivery)
            return
        self._turn += 1
        envelope = {
            "type": delivery.type, "envelope_id": delivery.envelope_id, "payload": delivery.payload,
            "accepts_response_payload": delivery.type == "interactive",
        }  # fmt: skip
        delivery.sent.append(time.monotonic())
        with suppress(ConnectionError):
            link = links[self._turn % len(links)]
            await link.socket.send_json(envelope | (retry if delivery.type == "events_api" else {}))

    async def _watch(self, delivery: Delivery) -> None:
        for _ in range(3):
            with suppress(TimeoutError):
                await delivery.acked(self.redeliver_after)
                return
            await self.send(delivery, reason="timeout", same_envelope=False)

    async def _post(self, delivery: Delivery, reason: str) -> None:
        """Send over HTTP, signed; the status is the acknowledgement."""
        payload = json.dumps(delivery.payload)
        event = delivery.type == "events_api"
        body = payload if event else urlencode({"payload": payload})
        kind = "application/json" if event else "application/x-www-form-urlencoded"
        headers = self.signed(body) | {"Content-Type": kind}
        if delivery.sent and reason:
            headers |= {"X-Slack-Retry-Num": str(len(delivery.sent)), "X-Slack-Retry-Reason": reason}
        delivery.sent.append(time.monotonic())
        async with ClientSession(timeout=ClientTimeout(total=3)) as session:
            with suppress(OSError, TimeoutError):
                async with session.post(self.http, data=body, headers=headers) as response:
                    if response.status == 200:
                        self._acked(delivery, None)

    def signed(self, body: str, *, at: int | None = None, secret: str | None = None) -> dict[str, str]:
        """Return the headers that show a request to come from Slack."""
        stamp = str(int(time.time()) if at is None else at)
        key = (self.signing_secret if secret is None else secret).encode()
        digest = hmac.new(key, f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}

    # ---- what a test lets happen

    def hold(self) -> None:
        """Keep what happens from now on until ``release``."""
        self.held = []

    async def release(self, order: Iterable[int] | None = None) -> list[Delivery]:
        """Send what was held, in another order where one is given."""
        held, self.held = self.held or [], None
        for index in order if order is not None else range(len(held)):
            await self.send(held[index])
        return held

    async def disconnect(self, reason: Reason) -> None:
        """Tell the app to come again; all but a warning end the connection."""
        for link in list(self.links):
            await link.socket.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "fake"}}
            )
            if reason != "warning":
                await link.socket.close()

    def cut(self) -> None:
        """End every connection without a word."""
        for link in self.links:
            link.silent = True
            if isinstance(link.transport, asyncio.Transport):
                link.transport.abort()

    def silence(self, *, deaf: bool = False) -> None:
        """Let what is connected now carry nothing more; ``deaf``: pings are still answered."""
        for link in self.links:
            link.silent, link.deaf = not deaf, deaf

    async def ping(self) -> None:
        """Ping the app, as Slack does all the time."""
        for link in self.links:
            await link.socket.ping(b"Ping from applink-fake")

    async def connected(self, seconds: float = 20.0, count: int = 1) -> None:
        """Wait for the app."""
        async with asyncio.timeout(seconds):
            while sum(link.open for link in self.links) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        """End everything."""
        for task in list(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for link in list(self.links):
            await link.socket.close()
