"""A message that grows while an investigation goes on: streamed, or rewritten where Slack does not stream.

What is sent is whole lines: a line is masked as a whole before any of it leaves, and lines that may still be
the beginning of a block to be masked are held back.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Literal

from agent.roles import Person
from agent.slack.door import Door
from agent.slack.errors import ChannelGone, SlackRefused
from agent.slack.store import Place, SlackStore
from agent.slack.text import MESSAGE_CHARS, STREAM_CHARS, Markup, escaped

EVERY_S: Final = 1.2
"""Slack takes about one rewriting of a message a second."""

AT_ONCE: Final = 2
"""So many messages may grow at that pace; Slack takes about a hundred such calls a minute of a whole app."""

STREAM_S: Final = 240.0
"""Slack ends a streamed message by itself after about five minutes, however much is said in it."""

STOPPED: Final = "You stopped this message, so I do not show each step any more. `stop` ends the work itself."

_BLOCK: Final = "-----BEGIN"
_log = logging.getLogger("leadline.slack")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a growing message; ``text`` is clean but not escaped."""

    text: str
    bold: bool = False

    def shown(self, markup: Markup) -> str:
        """Return the line as Slack takes it."""
        text = escaped(self.text, markup)
        if not self.bold or not text.strip():
            return text
        mark = "*" if markup == "mrkdwn" else "**"
        return f"{mark}{text}{mark}"


class Growing:
    """Show lines as they come, at most one call to Slack in `EVERY_S` seconds."""

    def __init__(
        self,
        door: Door,
        store: SlackStore,
        place: Place,
        reader: Person,
        *,
        every_s: float = EVERY_S,
        stream_s: float = STREAM_S,
    ) -> None:
        self._door = door
        self._store = store
        self._place = place
        self._reader = reader
        self._every_s = every_s
        self._stream_s = stream_s
        self._sending = asyncio.Lock()
        self._how: Literal["streamed", "rewritten"] = "streamed"
        self._ts = ""
        self._shown: list[Line] = []
        """Lines of the message that is open now."""
        self._waiting: list[Line] = []
        self._said = ""
        """Of the model's turn, as it came."""
        self._said_lines = 0
        self._more_said = False
        self._due: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._old = False
        """The open message is to be ended before Slack does it."""
        self._mute = False
        """Nothing can be shown any more, or nobody wants it."""

    def line(self, text: str, *, bold: bool = False) -> None:
        """Add a line."""
        self._take_lines(whole=False)
        self._waiting.append(Line(self._door.clean.line(text), bold))
        self._soon()

    def text(self, piece: str) -> None:
        """Add a piece of what the model says; its lines are shown when they are whole."""
        self._said += piece
        if "\n" in piece:
            self._more_said = True
            self._soon()

    def end_of_text(self) -> None:
        """Show what the model has said up to here: its turn is over."""
        self._take_lines(whole=True)
        self._said, self._said_lines = "", 0

    async def settle(self) -> None:
        """Wait until what was added is shown."""
        if self._due is not None:
            await asyncio.wait({self._due})

    async def close(self) -> None:
        """Show all that is left and finish the message."""
        self.end_of_text()
        if self._due is not None:
            async with self._sending:  # a call that is cut off may have been done, and would be made again
                self._due.cancel()
            await asyncio.wait({self._due})
            self._due = None
        await self._flush()
        await self._finish()

    def _take_lines(self, *, whole: bool) -> None:
        """Take over whole lines of what the model says; all of it is masked anew, so not at every piece."""
        if not (self._more_said or whole):
            return
        self._more_said = False
        rows = self._door.clean.plain(self._said).split("\n")
        if not whole:
            rows = rows[:-1]
            open_block = next((n for n, row in enumerate(self._said.split("\n")) if _BLOCK in row), None)
            rows = rows if open_block is None else rows[:open_block]
        fresh = rows[self._said_lines :]
        if fresh:
            self._said_lines = len(rows)
            self._waiting += [Line(row) for row in fresh if row.strip()]
            self._soon()

    def _soon(self) -> None:
        if self._due is None or self._due.done():
            self._due = asyncio.create_task(self._later())

    async def _later(self) -> None:
        self._door.growing += 1
        try:
            # A first line is shown at once; what comes right behind it waits.
            if self._ts:
                await self._pause()
            while (self._waiting or self._more_said or self._old) and not self._mute:
                self._take_lines(whole=False)
                await self._flush()
                await self._pause()
        finally:
            self._door.growing -= 1

    async def _pause(self) -> None:
        await asyncio.sleep(self._every_s * max(1.0, self._door.growing / AT_ONCE))

    async def _flush(self) -> None:
        """Send what waits; a channel that is gone is noted once and nothing is tried any more."""
        async with self._sending:
            try:
                while (self._waiting or self._old) and not self._mute:
                    await self._send()
            except ChannelGone as error:
                self._mute = True
                _log.warning("%s (channel %s)", error, self._place.channel)
            except SlackRefused as error:
                _log.warning("%s; shown later", error)

    async def _send(self) -> None:
        taken = [] if self._old else self._fitting()
        if not taken:
            await self._finish()
            return
        if self._how == "streamed":
            try:
                await self._extend(taken)
                self._taken(taken)
                return
            except ChannelGone:
                raise
            except SlackRefused as error:
                await self._not_streamed(error, taken)
                return
        await self._rewrite(taken)
        self._taken(taken)

    async def _not_streamed(self, error: SlackRefused, taken: list[Line]) -> None:
        """Go on by rewriting the message; by nothing where a reader stopped it with Slack's own button."""
        if error.code == "ratelimited":
            raise error
        if error.code == "stopped_by_user":
            self._forget()
            self._mute = True
            await self._door.say(self._place, STOPPED)
            return
        _log.info("%s; the message is rewritten instead", error)
        if self._ts and error.code != "message_not_in_streaming_state":
            await end_stream(self._door, self._place, self._ts)  # what is being streamed cannot be rewritten
        self._how = "rewritten"
        if self._size([*self._shown, *taken]) > MESSAGE_CHARS:
            self._forget()

    def _taken(self, lines: list[Line]) -> None:
        self._shown += lines
        del self._waiting[: len(lines)]

    def _fitting(self) -> list[Line]:
        """Return as many waiting lines as the open message has room for; none: it is full."""
        most = STREAM_CHARS if self._how == "streamed" else MESSAGE_CHARS
        taken: list[Line] = []
        for line in self._waiting:
            if self._size([*self._shown, *taken, line]) > most:
                break
            taken.append(line)
        if not taken and not self._shown:
            # One line that no message holds: it is cut, the whole of it stands in the case file.
            self._waiting[0] = Line(self._waiting[0].text[: most // 6], self._waiting[0].bold)
            taken = self._waiting[:1]
        return taken

    def _size(self, lines: list[Line]) -> int:
        markup: Markup = "markdown" if self._how == "streamed" else "mrkdwn"
        return sum(len(line.shown(markup)) + 2 for line in lines)

    async def _extend(self, lines: list[Line]) -> None:
        text = "".join(f"{line.shown('markdown')}\n\n" for line in lines)
        if self._ts:
            await self._door.stream("chat.appendStream", self._place, ts=self._ts, markdown_text=text)
            return
        # Slack wants to know who reads, in channels; in direct messages it does no harm.
        to = {"recipient_team_id": self._reader.team, "recipient_user_id": self._reader.user}
        self._opened(await self._door.stream("chat.startStream", self._place, markdown_text=text, **to))

    async def _rewrite(self, lines: list[Line]) -> None:
        text = "\n".join(line.shown("mrkdwn") for line in [*self._shown, *lines])
        if self._ts:
            try:
                await self._door.change(self._place, self._ts, text)
                return
            except ChannelGone:
                raise
            except SlackRefused as error:
                if error.code == "ratelimited":
                    raise
                _log.info("%s; a new message is begun", error)
                self._forget()
                text = "\n".join(line.shown("mrkdwn") for line in lines)
        self._opened(await self._door.say(self._place, text))

    def _opened(self, ts: str) -> None:
        self._ts = ts
        self._store.show(self._place, ts, "stream")
        if self._how == "streamed":
            self._timer = asyncio.get_running_loop().call_later(self._stream_s, self._grown_old)

    def _grown_old(self) -> None:
        self._old = True
        self._soon()

    def _forget(self) -> None:
        if self._ts:
            self._store.shut(self._place.channel, self._ts)
        if self._timer is not None:
            self._timer.cancel()
        self._ts, self._shown, self._old = "", [], False

    async def _finish(self) -> None:
        """End the open message; the next line begins another."""
        ts = self._ts
        streamed = self._how == "streamed"
        self._forget()
        if ts and streamed and not self._mute:
            await end_stream(self._door, self._place, ts)


async def end_stream(door: Door, place: Place, ts: str) -> None:
    """Stop a streamed message; one that Slack has ended by itself is no error."""
    try:
        await door.stream("chat.stopStream", place, ts=ts)
    except SlackRefused as error:
        _log.info("%s", error)
