"""`leadline approvals`: what is shown, what binds a grant to it, and how a run goes on after it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from agent.approvals_decide import decide
from agent.approvals_record import ApprovalRecord, ApprovalRefused
from agent.config import load_settings
from agent.errors import UsageError
from agent.surfaces import approving
from agent.surfaces.approvals_view import decide_approval, list_approvals, show_approval
from tests.approval_parts import BO, asked, by, settings, the_one
from tests.file_host import FakeService, FileHost
from tests.terminal_fixtures import environment, typing
from tests.test_approvals import tamper
from tests.trial_parts import moves, open_session
from tools.service_types import ChangePlan


@pytest.fixture
async def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApprovalRecord:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    return await asked(tmp_path, requester=None)


def grant(approval: str, digest: str | None = None) -> None:
    decide_approval(approval, grants=True, digest=digest, reason="", as_json=False)


async def test_list_names_what_waits_and_all_of_it_when_asked(
    record: ApprovalRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list_approvals(everything=False, as_json=False)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{record.id}  waiting  C1 --disable-cuda-graph of engine.service on here; asked")
    decide_approval(record.id, grants=False, digest=None, reason="not\x1b[2J now", as_json=False)
    assert "C1 denied by" in (said := capsys.readouterr().out) and "not\\x1b[2J now" in said
    list_approvals(everything=False, as_json=False)
    assert "Nothing waits" in capsys.readouterr().out
    list_approvals(everything=True, as_json=True)
    row = json.loads(capsys.readouterr().out)
    assert (row["id"], row["state"], row["decided_by"]["surface"]) == (record.id, "denied", "terminal")


async def test_list_says_what_is_forged(
    record: ApprovalRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.test_approvals_threats import FORGERIES

    FORGERIES["state flipped"](tmp_path, record)
    list_approvals(everything=False, as_json=False)
    assert f"{record.id}  forged" in capsys.readouterr().out


def test_nothing_is_made_by_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path / "new"))
    list_approvals(everything=True, as_json=False)
    assert "Nothing waits" in capsys.readouterr().out and not (tmp_path / "new").exists()
    with pytest.raises(ApprovalRefused, match="no approval"):
        show_approval("nothing", as_json=False)


async def test_show_prints_every_field_of_the_plan_and_the_whole_diff(
    record: ApprovalRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    show_approval(record.id, as_json=False)
    shown = capsys.readouterr().out
    for name in set(ChangePlan.model_fields) - {"diff"}:
        assert f"\n  {name}: " in shown, name
    assert "    -engine --disable-cuda-graph\n    +engine\n" in shown
    assert "\n    | ExecStart=engine\n" in shown
    assert shown.endswith(f"plan digest {record.digest}\n") and "requests in flight" in shown
    show_approval(record.id, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert ChangePlan.model_validate(told["plan"]).digest() == record.digest == told["approval"]["digest"]


async def test_a_grant_without_a_terminal_is_bound_to_what_was_seen(
    record: ApprovalRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="no terminal"):
        grant(record.id)
    with pytest.raises(UsageError, match="too short"):
        grant(record.id, record.digest[:8])
    with pytest.raises(ApprovalRefused, match="another plan"):
        grant(record.id, "0" * 12)
    assert the_one(tmp_path).state == "waiting"
    grant(record.id, record.digest[:12])
    assert "C1 approved by" in (said := capsys.readouterr().out)
    assert f"leadline ask here --resume {record.thread}" in said
    with pytest.raises(ApprovalRefused, match="answered already"):
        grant(record.id, record.digest[:12])


async def test_after_a_grant_a_resumed_run_asks_nobody(record: ApprovalRecord, tmp_path: Path) -> None:
    grant(record.id, record.digest)
    session = open_session(tmp_path, FakeService(FileHost(tmp_path / "host.json")), moves(), resume=True)
    async for _ in session.ask():
        pass
    await session.close()
    assert session.ended is not None and session.ended.outcome == "fixed"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 1


async def test_a_plan_that_is_not_the_one_asked_for_cannot_be_granted(
    record: ApprovalRecord, tmp_path: Path
) -> None:
    def edit(event: dict[str, object]) -> None:
        if isinstance(plan := event.get("plan"), dict):
            plan["to_value"] = "other"

    tamper(tmp_path / "threads" / "one" / "transcript.jsonl", edit)
    with pytest.raises(ApprovalRefused, match="does not hold the plan"):
        grant(record.id, record.digest)
    with pytest.raises(ApprovalRefused, match="does not hold the plan"):
        show_approval(record.id, as_json=True)
    assert the_one(tmp_path).state == "waiting"


@pytest.mark.parametrize("right", [True, False])
async def test_at_a_terminal_the_digest_is_typed(record: ApprovalRecord, tmp_path: Path, right: bool) -> None:
    leadline = str(Path(sys.executable).with_name("leadline"))
    with typing([leadline, "approvals", "grant", record.id], environment(str(tmp_path))) as terminal:
        terminal.expect("-engine --disable-cuda-graph")
        terminal.expect(f"plan digest {record.digest}")
        terminal.expect("type the first 8 characters")
        terminal.type(record.digest[:8] if right else "y")
        assert terminal.ends() == (0 if right else 2)
    assert the_one(tmp_path).state == ("approved" if right else "waiting")


async def test_a_question_at_a_terminal_is_taken_back_when_another_process_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approving, "POLL_S", 0.01)
    await asked(tmp_path)
    service = FakeService(FileHost(tmp_path / "host.json"))
    said = settings(tmp_path).approvals
    session = open_session(tmp_path, service, moves(), resume=True, approvals=said)
    async for _ in session.ask():
        pass
    nobody: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer() -> str:
        return await nobody

    asking = asyncio.create_task(approving.unless_decided(session, answer()))
    await asyncio.sleep(0.05)
    assert not asking.done()
    decide(settings(tmp_path), by(BO, the_one(tmp_path)))
    assert await asyncio.wait_for(asking, 30) is None and nobody.cancelled()
    async for _ in session.ask():
        pass
    await session.close()
    assert session.ended is not None and service.calls.count("apply") == 1


@pytest.mark.parametrize(
    ("set_", "says"),
    [
        ({"roles": {"aprover": []}}, "approvals.roles.aprover"),
        ({"roles": {"approver": ["slack:T0TEAM:Ana"]}}, "approvals.roles.approver.0: .*no user id of Slack"),
        ({"roles": {"approver": ["slack:Team:U0ANA"]}}, "approvals.roles.approver.0: .*no team id of Slack"),
        ({"roles": {"approver": ["U0ANA"]}}, "approvals.roles.approver.0: .*SURFACE:TEAM:USER"),
        ({"roles": {"approver": ["irc::ana"]}}, "approvals.roles.approver.0: .*no surface"),
        ({"roles": {"approver": ["terminal:x:ana"]}}, "approvals.roles.approver.0: .*terminal::USER"),
        ({"roles": {"admin": ["http:ops:"]}}, "approvals.roles.admin.0"),
        ({"roles": {"admin": ["http:ops:a", "http:ops:a"]}}, "approvals.roles: .*admin twice"),
        ({"roles": {"admin": ["http:ops:a"], "approver": ["http:ops:a"]}}, "approvals.roles: .*one role"),
        ({"roles": ["http:ops:a"]}, "approvals.roles"),
        ({"requester_may_approve": "perhaps"}, "approvals.requester_may_approve"),
        ({"expires_s": 0}, "approvals.expires_s"),
        ({"expire_s": 60}, "approvals.expire_s"),
    ],
)
def test_a_broken_role_map_is_refused_with_its_field(
    set_: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=says):
        load_settings(state_dir=tmp_path, approvals=set_)


async def test_expires_s_shortens_what_a_plan_allows(tmp_path: Path) -> None:
    record = await asked(tmp_path, expires_s=120.0)
    assert 0 < (record.expires_at - record.created_at).total_seconds() <= 120
