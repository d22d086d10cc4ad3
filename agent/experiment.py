"""Try one approved change on its host: measure, apply with an armed rollback, measure, keep or undo.

Every step on the host is in the transcript, on the disk, before it is taken. A trial that is entered again
after a death asks the host how the plan stands and goes on from there; applying is never done twice. What
the host answers decides, not what was intended.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from agent.approvals import claim, problem, void, withdraw
from agent.audit import AuditDown
from agent.audit_scope import acting
from agent.calls import finish, tool_context
from agent.events import (
    ActionFinished,
    ActionOutcome,
    ActionStarted,
    ChangeMoved,
    Event,
    Judged,
    Measured,
    Phase,
    Step,
)
from agent.executions import BegunBefore, Executions
from agent.investigation import Investigation
from agent.measuring import (
    MEASURE,
    arguments,
    comparison_text,
    known_cautions,
    levels_of,
    observed_of,
    outputs_of,
    reusable,
)
from agent.standing import OUTCOMES, at_rest, given_up
from agent.state import Change, ChangeStatus, Measurement, ToolCall
from agent.trial_view import Result, trial_view
from agent.trials import Trial
from agent.unsettled import closed
from agent.verdicts import compare, measured_words
from tools.contract import ArtifactRef, ToolError
from tools.service_types import ChangeStatus as Standing

SETTLE_TRIES = 3


class Experiment:
    """Carry one trial from its approval to its end, or from wherever a death left it."""

    def __init__(self, work: Investigation, trial: Trial, call: ToolCall) -> None:
        self.work = work
        self.trial = trial
        self.call = call
        self.plan = trial.plan
        self.host = work.hosts[self.plan.host]
        self.number = work.history.last_turn
        self.kept = self._kept_before()
        self.ctx = tool_context(work, call, self.kept)
        self.notes: list[str] = []
        self.begun_elsewhere = False
        """Another thread began this plan: its row in the ledger is not ours to close."""

    @property
    def change(self) -> Change:
        """Return the change as the ledger has it now."""
        return self.work.ledger.changes[self.trial.made.change]

    async def run(self, approved: str) -> None:
        """Bring the trial to its end; an approval that no longer holds sends it back to be planned anew."""
        if self.trial.actions:
            standing = await self._reconcile()
            if standing.stranded:
                standing = await self._brought_back(standing)
        else:
            try:
                why = await self._prepare(approved)
            except ToolError as error:
                detail = f"the state before could not be measured: {error}"
                self._close(Standing(state="none", detail=detail), "")
                return
            if why is not None:
                void(self.work, self.trial, why)
                return
            standing = await self._apply()
        failed = ""
        if standing.state == "applied" and not self._is_judged():
            standing, failed = await self._try()
        if standing.state == "applied":
            standing, failed = await self._settle(failed)
        self._close(standing, failed)

    async def _prepare(self, approved: str) -> str | None:
        """Measure the state before; return why the approval does not hold any more, as of now."""
        if "baseline" not in self.trial.measured:
            await self._baseline()
        await self.work.gate.passed()
        return problem(self.work, self.trial, self.change, self.host.key_fingerprint, approved)

    async def _baseline(self) -> None:
        now = await self.work.ports.observe(self.host, self.plan.port)
        earlier = self.work.trials.standing.get((self.plan.host, self.plan.unit))
        if earlier is not None and reusable(earlier.measurement, now, self.work.settings):
            found = earlier.measurement
            observed = {**found.observed, **observed_of(self.change, now, now, [])}
            notes = [f"measured as {found.artifact}; the unit is in the same state"]
            again = found.model_copy(update={"observed": observed, "notes": notes})
            self._record(
                Measured(
                    change=self.change.id, phase="baseline", artifact=earlier.artifact, measurement=again
                )
            )
            return
        await self._measure("baseline", secrets.randbelow(2**31))

    async def _measure(self, phase: Phase, seed: int) -> None:
        """Put load on the server and record what came of it."""
        observe, tool = self.work.ports.observe, self.work.tools[MEASURE]
        before = await observe(self.host, self.plan.port)
        raw = arguments(self.plan, before, self.work.settings, seed)
        what = f"measure {self.change.id}, {phase}"
        with acting(self.work.thread, what, reads=True, change=self.change.id, digest=self.plan.digest()):
            view = await tool.run(self.ctx, tool.args.model_validate(raw))
        after = await observe(self.host, self.plan.port)
        ref = next(ref for ref in self.kept if ref.handle == view["artifact"])
        figures = json.loads(self.work.store.get(ref.sha256))
        measurement = Measurement(
            artifact=ref.handle,
            taken_at=ref.taken_at,
            seed=seed,
            levels=levels_of(figures["runs"]),
            observed=observed_of(self.change, before, after, figures["runs"]),
            state=after.fingerprint,
            notes=[str(note) for note in figures.get("notes", [])],
        )
        self._record(Measured(change=self.change.id, phase=phase, artifact=ref, measurement=measurement))

    async def _apply(self) -> Standing:
        given = self.trial.given
        assert given is not None  # its absence was found before
        try:
            action = self._start("apply", [self._moved("approved")])
        except AuditDown as error:
            return Standing(state="none", detail=str(error))
        try:
            claim(self.work, self.trial)
            Executions(self.work.settings.state_dir).begin(self.plan, self.work.thread)
            done = await self.work.ports.service.apply(self.host, self.plan, given.digest, self.ctx.progress)
        except ToolError as error:
            self.begun_elsewhere = isinstance(error, BegunBefore)
            self._finish(action, "refused", str(error))
            return Standing(state="none", detail=str(error))
        standing = done.status if done.outcome != "unknown" else await self._standing()
        if standing.state == "none":
            standing = await self._given_up()
        self._finish(action, OUTCOMES[standing.state], standing.detail or done.detail)
        return standing

    async def _reconcile(self) -> Standing:
        """Ask the host how the plan stands, and close the step that has no recorded end by the answer."""
        withdraw(self.work, self.trial, "the run that was to use it died")
        standing = await self._standing()
        if standing.state == "none":
            standing = await self._given_up()
        if standing.state == "none" and any(_applied(action.finished) for action in self.trial.actions):
            detail = f"it was applied, and the host knows nothing of it any more ({standing.detail})"
            standing = Standing(state="unknown", detail=detail)
        if (action := self.trial.unfinished()) is not None:
            outcome = OUTCOMES[standing.state]
            if action.started.step == "extend" and outcome == "applied":
                outcome = "extended"
            self._finish(action.started, outcome, f"as found on the host: {standing.detail}")
        self.notes.append(f"taken up again: the host says {standing.state.replace('_', ' ')}")
        return standing

    async def _brought_back(self, standing: Standing) -> Standing:
        """Order the way back of a change that no timer will undo, unless the host refuses."""
        try:
            return await self._finish_by("roll_back")
        except ToolError as error:
            return standing.model_copy(update={"detail": f"{standing.detail}; {error}"})

    async def _given_up(self) -> Standing:
        return await given_up(self.work.ports.service, self.host, self.plan)

    async def _standing(self) -> Standing:
        at_work_s = self.plan.readiness_s + self.plan.rollback_after_s + 30
        return await at_rest(self.work.ports.service, self.host, self.plan.id, at_work_s, self.ctx.progress)

    async def _try(self) -> tuple[Standing, str]:
        """Measure and judge the applied change; return how it stands then, and why there is no verdict."""
        baseline = self.trial.measured["baseline"].measurement
        if "after" not in self.trial.measured:
            standing, failed = await self._measure_held(baseline.seed)
            if standing.state != "applied" or failed:
                return standing, failed
        self._judge()
        return Standing(state="applied", detail="judged"), ""

    async def _measure_held(self, seed: int) -> tuple[Standing, str]:
        """Measure while the rollback timer is pushed back; stop when the host does not hold the change."""
        standing, failed = await self._extend()
        if standing.state != "applied" or failed:
            return standing, failed
        until = time.monotonic() + self.work.settings.experiment_max_s
        load = asyncio.create_task(self._measure("after", seed))
        try:
            while not (await asyncio.wait({load}, timeout=self.plan.rollback_after_s / 3))[0]:
                if time.monotonic() > until:
                    return standing, "measuring took too long"
                standing, failed = await self._extend()
                if standing.state != "applied" or failed:
                    return standing, failed
        finally:
            load.cancel()
            await asyncio.wait({load})
        try:
            load.result()
        except ToolError as error:
            return standing, f"it could not be measured: {error}"
        return standing, ""

    async def _extend(self) -> tuple[Standing, str]:
        """Push the rollback timer back; return how the plan stands, and why that could not be done."""
        try:
            action = self._start("extend")
        except AuditDown as error:
            return Standing(state="applied", detail=""), str(error)
        seconds, failed = self.plan.rollback_after_s, ""
        try:
            standing = await self.work.ports.service.extend(self.host, self.plan, seconds)
        except ToolError as error:
            standing, failed = await self._standing(), f"the rollback timer could not be set anew: {error}"
        if standing.state in ("unknown", "armed"):
            standing = await self._standing()
        held = standing.state == "applied"
        outcome = "refused" if failed else "extended" if held else OUTCOMES[standing.state]
        self._finish(action, outcome, failed or standing.detail)
        return standing, failed

    def _judge(self) -> None:
        """Compare both measurements and record the verdict, with its figures as an artifact to cite."""
        pair = (self.trial.measured["baseline"], self.trial.measured["after"])
        before, after = (one.measurement for one in pair)
        digests = [outputs_of(self.work.store.get(one.artifact.sha256)) for one in pair]
        cautions = known_cautions(self.change.setting)
        found = compare(self.change, before, after, (digests[0], digests[1]), cautions)
        words = measured_words(found.levels)
        ref = self.ctx.keep(
            comparison_text(self.change, before, after, found),
            host=self.plan.host,
            label=f"comparison of {before.artifact} and {after.artifact} for {self.change.id}",
            taken_at=datetime.now(UTC),
        )
        self._record(
            Judged(
                change=self.change.id,
                comparison=found,
                predicted=self.change.predicted_effect,
                measured=words,
                artifact=ref,
            )
        )

    async def _settle(self, failed: str) -> tuple[Standing, str]:
        """Keep or undo what was judged; what could not be judged, or may not be kept, is undone."""
        standing = Standing(state="applied", detail="")
        keep = not failed and self._may_be_kept()
        for _ in range(SETTLE_TRIES):
            try:
                standing = await (self._finish_by("confirm") if keep else self._finish_by("roll_back"))
            except ToolError as error:
                keep, failed = False, str(error)
            if standing.state != "applied":
                break
        return standing, failed

    def _is_judged(self) -> bool:
        return self.trial.judged is not None

    def _may_be_kept(self) -> bool:
        return self.trial.judged is not None and self.trial.judged.comparison.kept

    async def _finish_by(self, step: Literal["confirm", "roll_back"]) -> Standing:
        service = self.work.ports.service
        action = self._start(step)
        try:
            if step == "confirm":
                done = await service.confirm(self.host, self.plan)
            else:
                done = await service.roll_back(self.host, self.plan)
        except ToolError as error:
            self._finish(action, "refused", str(error))
            raise
        standing = done.status if done.outcome != "unknown" else await self._standing()
        self._finish(action, OUTCOMES[standing.state], standing.detail or done.detail)
        return standing

    def _close(self, standing: Standing, failed: str) -> None:
        """Write the result of the call and, in one piece with it, where the change stands now."""
        result = _result(standing, self.trial)
        if result == "not_applied":
            withdraw(self.work, self.trial, standing.detail)
        status: ChangeStatus | None = {"kept": "verified", "rolled_back": "rolled_back"}.get(result)  # type: ignore[assignment]
        moved = [self._moved(status)] if status else []
        change = moved[0].change if moved else self.change
        view = trial_view(change, self.trial, result, standing, failed, [*standing.notes, *self.notes])
        finish(self.work, self.number, self.call, view, events=list(moved), artifacts=self.kept)
        self.work.transcript.sync()
        if not self.begun_elsewhere:
            closed(self.work, self.plan, result)

    def _moved(self, status: ChangeStatus) -> ChangeMoved:
        return ChangeMoved(turn=self.number, change=self.change.model_copy(update={"status": status}))

    def _start(self, step: Step, before: Sequence[Event] = ()) -> ActionStarted:
        place = f"{self.change.id}.{self.trial.made.digest[:8]}.{len(self.trial.actions) + 1}"
        started = ActionStarted(
            turn=self.number, action=place, change=self.change.id, step=step, digest=self.trial.made.digest
        )
        self.work.audit.record(
            "step_started",
            needed=step != "roll_back",
            thread=self.work.thread,
            host=self.plan.host,
            host_key=self.plan.host_key,
            effect="restore" if step == "roll_back" else "write",
            what=f"{step} {place}",
            change=self.change.id,
            digest=self.trial.made.digest,
        )
        self.work.transcript.append_all([*before, started], durable=True)
        return started

    def _finish(self, action: ActionStarted, outcome: ActionOutcome, detail: str) -> None:
        applied = outcome == "applied" and self.change.status == "approved"
        done = ActionFinished(
            turn=self.number,
            action=action.action,
            change=action.change,
            step=action.step,
            outcome=outcome,
            detail=detail,
        )
        self.work.transcript.append_all([*([self._moved("applied")] if applied else []), done], durable=True)

    def _record(self, event: Event) -> None:
        self.work.transcript.append(event.model_copy(update={"turn": self.number}))

    def _kept_before(self) -> list[ArtifactRef]:
        """Return the artifacts that this call kept before a death, so that no handle is given twice."""
        name = self.work.history.names[self.call.id]
        refs = [found.artifact for found in self.trial.measured.values()]
        refs += [self.trial.judged.artifact] if self.trial.judged else []
        return sorted(
            (ref for ref in refs if ref.handle.startswith(f"{name}.")),
            key=lambda ref: int(ref.handle.rpartition(".")[2]),
        )


class Undo(Experiment):
    """Take a kept change back: kept as soon as the old state runs and answers, whatever its speed."""

    async def _prepare(self, approved: str) -> str | None:
        await self.work.gate.passed()
        return problem(self.work, self.trial, self.change, self.host.key_fingerprint, approved)

    def _is_judged(self) -> bool:
        return True

    def _may_be_kept(self) -> bool:
        return True


def _applied(finished: ActionFinished | None) -> bool:
    return finished is not None and finished.outcome in ("applied", "extended")


def _result(standing: Standing, trial: Trial) -> Result:
    match standing.state:
        case "confirmed":
            return "kept"
        case "rolled_back":
            return "rolled_back"
        case "none":
            return "not_applied"
        case _:
            return "needs_person"
