"""The one door to Slack's Web API: everything that is shown goes out here, without secrets and previews."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agent.slack.errors import SlackRefused, told
from agent.slack.store import Place
from agent.slack.text import Cleaner, split

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient
    from slack_sdk.web.async_slack_response import AsyncSlackResponse

Block = dict[str, Any]

QUIET: Final = {"unfurl_links": False, "unfurl_media": False}
"""Let Slack fetch nothing that stands in a message: a preview carries its address to who runs the host."""


MOST_MESSAGES: Final = 5
"""Text that would take more messages goes into a file, below its beginning."""


class Door:
    """Call Slack's Web API; whatever text goes out is masked here once more."""

    def __init__(self, client: AsyncWebClient, clean: Cleaner) -> None:
        self._client = client
        self.clean = clean
        self.growing = 0
        """Messages that grow right now: they share the calls that Slack takes a minute."""

    async def call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Call a method that writes; raise `SlackRefused` with what to do when Slack refuses it."""
        return await self._told(method, self._client.api_call(method, json=arguments))

    async def look(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Call a method that reads, which takes its arguments in the address alone."""
        return await self._told(method, self._client.api_call(method, http_verb="GET", params=arguments))

    async def _told(self, method: str, call: Awaitable[AsyncSlackResponse]) -> Mapping[str, Any]:
        from aiohttp import ClientError
        from slack_sdk.errors import SlackApiError, SlackClientError

        try:
            answer = await call
        except SlackApiError as error:
            raise told(method, error) from error
        except (SlackClientError, ClientError, TimeoutError, OSError) as error:
            raise SlackRefused(
                f"Slack: {method} got no answer ({type(error).__name__})", code="link"
            ) from error
        return answer.data if isinstance(answer.data, dict) else {}

    async def say(self, place: Place, text: str, blocks: Sequence[Block] | None = None) -> str:
        """Post into a thread, in several messages when it is long; return the time stamp of the last.

        The text is Slack's own markup, escaped already; with blocks it is what a notification shows.
        """
        ts = ""
        pieces = split(text)
        if len(pieces) > MOST_MESSAGES:
            await self.upload(place, "message.txt", html.unescape(text).encode())
            pieces = [f"{pieces[0]}\n(The whole of it is in the file above.)"]
        for number, piece in enumerate(pieces, 1):
            shown = {"blocks": list(blocks)} if blocks and number == len(pieces) else {}
            ts = await self._post("chat.postMessage", place, text=piece, **shown)
        return ts

    async def change(self, place: Place, ts: str, text: str, blocks: Sequence[Block] | None = None) -> None:
        """Rewrite a message; without blocks it loses its buttons."""
        await self._post("chat.update", place, ts=ts, text=split(text)[0], blocks=list(blocks or []))

    async def whisper(self, place: Place, user: str, text: str) -> None:
        """Tell one person alone."""
        await self._post("chat.postEphemeral", place, user=user, text=split(text)[0])

    async def stream(self, method: str, place: Place, **arguments: Any) -> str:
        """Start, extend or stop a streamed message; its text is Markdown, escaped already."""
        top = {"thread_ts": place.ts, **QUIET} if method == "chat.startStream" else {}
        shown = self._masked({"channel": place.channel, **top, **arguments})
        return str((await self.call(method, **shown)).get("ts") or "")

    async def upload(self, place: Place, name: str, data: bytes, comment: str = "") -> None:
        """Put a file into a thread; text in it is masked, a picture is sent as it is."""
        if not name.endswith(".png"):
            data = await asyncio.to_thread(self.clean.redact, data)
        sending = self._client.files_upload_v2(
            filename=name,
            title=name,
            file=data,
            channel=place.channel,
            thread_ts=place.ts,
            initial_comment=self._masked(comment) or None,
        )
        await self._told("files.upload", sending)

    async def open_view(self, trigger: str, view: Block) -> None:
        """Open a modal for whoever pressed a button."""
        await self.call("views.open", trigger_id=trigger, view=self._masked(view))

    async def _post(self, method: str, place: Place, **arguments: Any) -> str:
        """Post or rewrite a message; every one of them goes through here."""
        threaded = {} if method == "chat.update" else {"thread_ts": place.ts}
        shown = self._masked({"channel": place.channel, **threaded, **arguments})
        answer = await self.call(method, **shown, **QUIET, link_names=False)
        return str(answer.get("ts") or answer.get("message_ts") or "")

    def _masked(self, value: Any) -> Any:
        """Return what is sent with every text in it masked: the last look before it leaves."""
        if isinstance(value, str):
            return self.clean.exact(value)
        if isinstance(value, dict):
            return {name: self._masked(item) for name, item in value.items()}
        return [self._masked(item) for item in value] if isinstance(value, list) else value
