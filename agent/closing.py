"""Close an investigation: the ledger's guards, the verifier, the end; failing claims go back once."""

from __future__ import annotations

from agent.actions import AnswerArgs, ConcludeArgs
from agent.calls import finish, refuse, start, validated
from agent.errors import ExitCode
from agent.events import ConclusionChecked, TurnTaken
from agent.history import CONCLUDE
from agent.investigation import Investigation
from agent.state import ClaimCheck, Conclusion, ToolCall
from agent.verifier import check, problems
from tools.contract import ToolError

SEND_BACK = 1
"""How often a conclusion with failing claims comes back; after that they are shown as unverified."""


def checks_of(work: Investigation, turn: TurnTaken) -> list[ClaimCheck]:
    """Return a check for each claim of the conclusion of a turn, recording nothing; none where it is refused.

    It reads and parses what the claims cite, so it is done in a thread.
    """
    call = next(call for call in turn.tool_calls if call.name == CONCLUDE)
    if call.id in work.history.finished:
        return []
    try:
        conclusion = _conclusion(work, call)
    except ToolError:
        return []
    ledger = work.ledger
    return check(conclusion, ledger.artifacts, work.store, ledger.calls, ledger)


def close(work: Investigation, turn: TurnTaken, checks: list[ClaimCheck]) -> bool:
    """Answer the conclusion of a turn, whose claims were checked; return whether it ended with that."""
    first, *more = [call for call in turn.tool_calls if call.name == CONCLUDE]
    for call in more:
        if call.id not in work.history.finished:
            refuse(work, turn.turn, call, "one conclusion a turn; the first one was taken")
    if first.id not in work.history.finished:
        _answer(work, turn.turn, first, checks)
    checked = work.history.checked.get(turn.turn)
    if checked is None or not checked.accepted:
        return False
    work.end(checked.conclusion.outcome, checked.conclusion.summary, turn.turn, _code(work, turn.turn))
    return True


def _conclusion(work: Investigation, call: ToolCall) -> Conclusion:
    """Return what a call concludes; raise `ToolError` when it may not be."""
    args = validated(AnswerArgs, call) if work.ledger.question else validated(ConcludeArgs, call)
    conclusion = args.conclusion()
    work.ledger.may_conclude(conclusion)
    return conclusion


def _answer(work: Investigation, number: int, call: ToolCall, checks: list[ClaimCheck]) -> None:
    start(work, number, call)
    try:
        conclusion = _conclusion(work, call)
    except ToolError as error:
        finish(work, number, call, {"error": str(error)}, status="tool_error")
        return
    wrong = problems(conclusion, checks, work.ledger)
    accepted = not wrong or work.history.sent_back >= SEND_BACK or work.is_last(number)
    if accepted and conclusion.outcome == "answered":
        conclusion = _answered(conclusion, checks)
    event = ConclusionChecked(conclusion=conclusion, checks=checks, accepted=accepted, problems=wrong)
    finish(work, number, call, _view(conclusion, checks, wrong, accepted), events=[event])


def _answered(conclusion: Conclusion, checks: list[ClaimCheck]) -> Conclusion:
    """Return the answer, or that none is known where nothing that it claims was found again."""
    if any(item.status == "verified" for item in checks):
        return conclusion
    said = f"Nothing that this answer claims was found again in what was read: {conclusion.summary}"
    return conclusion.model_copy(update={"outcome": "not_known", "summary": said})


def _view(
    conclusion: Conclusion, checks: list[ClaimCheck], wrong: list[str], accepted: bool
) -> dict[str, object]:
    counts = {status: sum(item.status == status for item in checks) for status in ("verified", "opinion")}
    if accepted:
        return {"accepted": True, "outcome": conclusion.outcome, **counts, "unverified": wrong}
    return {
        "accepted": False,
        **counts,
        "failing": wrong,
        "do": "Mend or drop the failing claims and conclude again; what fails then is shown as unverified.",
    }


def _code(work: Investigation, number: int) -> ExitCode:
    return ExitCode.BUDGET if work.is_last(number) else ExitCode.DONE
