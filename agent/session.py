"""One investigation from the outside: start or resume it, ask, watch its events, stop it. The only door."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent import threads
from agent.approvals import Approval, approval_of, give, open_elsewhere, waiting, withdraw
from agent.budget import Limits
from agent.calls import refuse
from agent.config import Settings, pin_libraries
from agent.errors import ExitCode, UsageError
from agent.events import (
    ApprovalAsked,
    Ended,
    Event,
    Live,
    Resumed,
    Started,
    SystemNote,
    UndoAsked,
    UserMessage,
)
from agent.given_log import lost
from agent.investigation import Investigation
from agent.looks import history_of
from agent.messages import Messages
from agent.models import Model
from agent.ports import Ports
from agent.questions import opens_question
from agent.revising import revise
from agent.roles import Person
from agent.run_end import settle
from agent.shown import default_tools, digests, system_prompt
from agent.spoken import SPOKE, speak_into, under_way
from agent.state import Change, Mode
from agent.transcript import Transcript
from tools.artifacts import ArtifactStore
from tools.contract import Host, Redactor, Tool
from tools.history_store import STORE
from tools.service_types import ChangePlan

if TYPE_CHECKING:
    from langgraph.runtime import RunControl


class Session:
    """Hold one thread, alone in this process and on this machine, until closed."""

    def __init__(
        self, folder: Path, lock: int, work: Investigation, queue: asyncio.Queue[Live | None]
    ) -> None:
        self.folder = folder
        self.thread = folder.name
        self._lock = lock
        self._work = work
        self._live = queue
        self._run: asyncio.Task[None] | None = None
        self._control: RunControl | None = None
        self._spoken = False

    @classmethod
    def start(
        cls,
        settings: Settings,
        model: Model,
        hosts: Mapping[str, Host],
        symptom: str,
        mode: Mode = "read-only",
        *,
        recorded: str | None = None,
        scenario: str | None = None,
        thread: str | None = None,
        tools: Mapping[str, Tool[Any]] | None = None,
        redact: Redactor | None = None,
        ports: Ports | None = None,
        recorded_outputs: ArtifactStore | None = None,
        requester: Person | None = None,
        notes: Sequence[str] = (),
        log: bool = False,
    ) -> Session:
        """Open a new thread; nothing runs before `ask`. A surface that is no terminal names a ``requester``.

        ``notes`` is what the program tells the model before its first turn, and the record keeps. With
        ``recorded_outputs`` it is a replay, whose folder goes when it ends: raw outputs are read from there,
        and nothing waits for the disk. ``log`` says that one is given next (`given_log.give`).
        """
        question = opens_question(symptom, mode, recorded or model.name)
        tools = tools if tools is not None else default_tools(settings, question=question)
        folder = threads.create(settings, thread)
        event = Started(
            thread=folder.name,
            product=importlib.metadata.version("leadline"),
            recorded=recorded or model.name,
            scenario=scenario,
            symptom=symptom,
            hosts=list(hosts),
            mode=mode,
            budget=Limits.of(settings).record(),
            prompts=digests(tools, question=question),
            requester=requester,
            question=question,
            log=log,
        )
        session = cls._open(settings, folder, model, hosts, tools, redact, ports, event, recorded_outputs)
        for text in notes:
            session._work.transcript.append(SystemNote(turn=0, text=text))
        return session

    @classmethod
    def resume(
        cls,
        settings: Settings,
        thread: str,
        model: Model,
        hosts: Mapping[str, Host],
        *,
        tools: Mapping[str, Tool[Any]] | None = None,
        redact: Redactor | None = None,
        ports: Ports | None = None,
    ) -> Session:
        """Take an existing thread up again; `threads.started` tells which hosts it needs."""
        folder = threads.find(settings, thread)
        event = Resumed(process=f"{socket.gethostname()}:{os.getpid()}")
        return cls._open(settings, folder, model, hosts, tools, redact, ports, event)

    @classmethod
    def _open(
        cls,
        settings: Settings,
        folder: Path,
        model: Model,
        hosts: Mapping[str, Host],
        tools: Mapping[str, Tool[Any]] | None,
        redact: Redactor | None,
        ports: Ports | None,
        event: Started | Resumed,
        recorded_outputs: ArtifactStore | None = None,
    ) -> Session:
        lasting = recorded_outputs is None
        redact = redact or _default_redactor(settings)
        queue: asyncio.Queue[Live | None] = asyncio.Queue()
        with ExitStack() as undo:
            lock = threads.lock(folder)
            undo.callback(os.close, lock)
            transcript = Transcript(folder / "transcript.jsonl", redact, lasting=lasting)
            undo.callback(transcript.close)
            if lost(transcript.events):
                raise UsageError(
                    f"{folder.name} ended before its log was stored", do="ask again, with the log"
                )
            transcript.append(event, durable=True)
            started = transcript.events[0]
            assert isinstance(started, Started)  # the reader accepts nothing else first
            _refuse_other_hosts(started, hosts)
            if tools is None:
                tools = default_tools(settings, question=started.question)
            work = Investigation(
                settings=settings,
                mode=started.mode,
                model=model,
                hosts=hosts,
                tools=tools,
                transcript=transcript,
                store=recorded_outputs or ArtifactStore(folder / "artifacts"),
                redact=redact,
                messages=Messages(system_prompt(started, settings)),
                emit=queue.put_nowait,
                ports=ports or Ports.real(),
                lasting=lasting,
            )
            if lasting:
                work.cache[STORE] = history_of(settings, redact)
            undo.pop_all()
        return cls(folder, lock, work, queue)

    @property
    def work(self) -> Investigation:
        """Return what the thread works with, for commands that answer from its record or add to it."""
        return self._work

    @property
    def at_work(self) -> bool:
        """Tell whether a run is under way."""
        return self._run is not None

    @property
    def events(self) -> Sequence[Event]:
        """Return every stored event so far."""
        return self._work.transcript.events

    @property
    def ended(self) -> Ended | None:
        """Return how the investigation ended, None while it goes on."""
        return self._work.history.ended

    @property
    def exit_code(self) -> ExitCode:
        """Return how the last `ask` came to its end."""
        return self._work.exit_code

    async def ask(self, text: str | None = None) -> AsyncGenerator[Live, None]:
        """Say something, or go on where the thread stands, and yield events as they happen.

        The symptom given to `start` need not be said again. Ends when the investigation ends, or
        after `cancel` or `drain`; raises what made a run fail, after the `Failed` event. What is to
        be said while it runs goes through `steer`.
        """
        if self._run is not None:
            raise UsageError(f"thread {self.thread} is at work", do="cancel it first, or wait")
        while not self._live.empty():
            self._live.get_nowait()
        work = self._work
        work.exit_code = ExitCode.DONE
        work.gate.open()
        spoken, self._spoken = (text is not None and self._say(text)) or self._spoken, False
        if work.history.ended is not None:
            return
        run = self._run = asyncio.create_task(self._drive(spoken))
        run.add_done_callback(lambda _: self._live.put_nowait(None))
        try:
            while (event := await self._live.get()) is not None:
                yield event
        finally:
            run.cancel()
            await asyncio.wait({run})
            self._run = self._control = None
            work.transcript.sync()
        error = settle(work, run, self.thread)
        while (event := self._live.get_nowait() if not self._live.empty() else None) is not None:
            yield event
        if error is not None:
            raise error

    def take_back(self, wanted: UndoAsked) -> None:
        """Make this thread one that takes a kept change back; to be called before it is asked anything."""
        self._work.transcript.append(wanted, durable=True)

    @property
    def waiting(self) -> ApprovalAsked | None:
        """Return the approval that the thread waits for."""
        return waiting(self._work)

    @property
    def approval_id(self) -> str:
        """Return the id of the approval that the thread waits for."""
        return approval_of(self._work)

    @property
    def decided_elsewhere(self) -> bool:
        """Tell whether another process decided, or voided, what the thread waits for; then `ask` goes on."""
        return self.waiting is not None and not open_elsewhere(self._work)

    def plan(self, change: str) -> ChangePlan:
        """Return the plan of a change, as it is to be approved."""
        return self._work.trials.by_change[change].plan

    def change(self, change: str) -> Change:
        """Return a change as the ledger has it."""
        return self._work.ledger.changes[change]

    def revise(self, change: str, digest: str, value: str | None, by: str) -> None:
        """Let the plan that waits be made anew for another value; `ask(None)` then asks for that one."""
        if self._run is not None:
            raise UsageError(f"thread {self.thread} is at work", do="wait until it asks")
        revise(self._work, change, digest, value, by)

    async def answer(self, approval: Approval) -> AsyncGenerator[Live, None]:
        """Record the decision on the plan that waits, then go on and yield events as `ask` does.

        Raises `ApprovalRefused` when it is for another plan, a second one, or too late.
        """
        if self._run is not None:
            raise UsageError(f"thread {self.thread} is at work", do="wait until it asks")
        yield give(self._work, approval)
        async for event in self.ask(None):
            yield event

    @property
    def held(self) -> bool:
        """Tell whether a person holds the model's work."""
        return self._runs() and self._work.gate.closed

    @property
    def unheard(self) -> bool:
        """Tell whether a person said something that no turn of the model has heard."""
        return self._work.history.unheard > 0

    def steer(self, text: str) -> bool:
        """Say something while work goes on, for the model's next turn; end no call that runs.

        It is recorded at once. A change that is under way on a host is finished first; an approval that
        waits, or was given and not yet used, is void. Returns False when nothing is at work: then it is
        heard as soon as `ask(None)` goes on.
        """
        if not self._runs():
            self._spoken = self._say(text) or self._spoken
            return False
        speak_into(self._work, text)
        return True

    def hold(self) -> bool:
        """Stop the model's work, and let nothing further begin, until `go_on`, `steer` or `cancel`.

        What runs on hosts goes on, and its result is recorded; False when nothing is at work.
        """
        if self._runs():
            self._work.gate.close()
        return self.held

    def go_on(self) -> None:
        """Let work that is held go on as before."""
        if self.held and not under_way(self._work):
            self._work.budget.rested()
        self._work.gate.open()

    def cancel(self) -> None:
        """Stop at once what runs; commands on hosts are killed, and the thread can be gone on with."""
        if self._run is not None:
            self._run.cancel()

    def drain(self) -> None:
        """Stop after the step that runs: a surface's answer to SIGTERM."""
        if self._control is None:
            return
        self._control.request_drain("terminated")
        if self.held and not under_way(self._work):
            self.cancel()
        self._work.gate.open()

    def _runs(self) -> bool:
        return self._run is not None and not self._run.done()

    async def close(self) -> None:
        """Stop what runs, write everything to the disk, and give the thread back."""
        if self._run is not None:
            self.cancel()
            await asyncio.wait({self._run})
        self._work.transcript.close()
        if self._work.lasting:
            threads.note_left(self.folder)
        os.close(self._lock)

    def _say(self, text: str) -> bool:
        """Record what a person said; the symptom said again as the first words counts once."""
        work, history = self._work, self._work.history
        if history.started is not None and not history.turns and text == history.started.symptom:
            return False
        trial = work.trials.open
        if trial is not None and trial.acting:
            # What is under way on a host is finished first; the words are heard after it.
            work.transcript.append(UserMessage(turn=history.last_turn, text=text))
            return False
        if trial is not None:
            withdraw(work, trial, SPOKE)
        for call in list(history.pending()):
            refuse(work, history.last_turn, call, "interrupted: the person spoke before this was done")
        work.transcript.append(UserMessage(turn=history.last_turn, text=text))
        return True

    async def _drive(self, spoken: bool) -> None:
        pin_libraries()
        from langgraph.runtime import RunControl

        from agent.driver import drive

        self._control = RunControl()
        while True:
            turn = self._work.history.last_turn
            await drive(self._work, self.folder, self._control, spoken=spoken)
            if not self.unheard or self.ended or self.waiting or self._work.history.last_turn == turn:
                return
            spoken = True  # said after the last step, before the run came to its end


def _refuse_other_hosts(started: Started, hosts: Mapping[str, Host]) -> None:
    missing = [name for name in started.hosts if name not in hosts]
    if missing:
        raise UsageError(f"thread {started.thread} needs host {missing[0]}", do="connect it, then resume")


def _default_redactor(settings: Settings) -> Redactor:
    from agent.own_secrets import redactor

    return redactor(settings)
