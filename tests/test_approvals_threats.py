"""Who decides, how often, and on what: threats 4, 5 and 6 at the one door that every surface uses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.approvals_decide import decide, take_back
from agent.approvals_record import KEY, ApprovalForged, ApprovalRecord, ApprovalRefused
from agent.approvals_store import STORE, ApprovalStore
from agent.errors import LeadlineError
from agent.events import ActionStarted, ApprovalVoided
from agent.roles import Person, at_terminal
from tests.approval_parts import ANA, BO, ROOT, asked, by, resumed, settings, the_one
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import LocalHost, make_settings
from tests.trial_parts import moves, open_session

HERE = Path(__file__).parent
Record = Callable[[str, object], None]

STRANGERS = [
    Person(surface="slack", team="T0TEAM", user="U0NOBODY", name="Bo", standing="member"),
    Person(surface="slack", team="T0OTHER", user="U0BO", name="Bo", standing="member"),
    Person(surface="slack", team="", user="U0BO", standing="member"),
    Person(surface="slack", team="T0TEAM", user="Bo", name="Bo", standing="member"),
    Person(surface="slack", team="T0TEAM", user="u0bo", standing="member"),
    Person(surface="slack", team="T0TEAM", user="U0BO ", standing="member"),
    Person(surface="slack", team="T0TEAM:U0BO", user="", standing="member"),
    Person(surface="slack", team="T0TEAM", user="", standing="member"),
    BO.model_copy(update={"standing": "guest"}),
    BO.model_copy(update={"standing": "unknown"}),
    Person(surface="http", team="T0TEAM", user="U0BO", standing="member"),
    Person(surface="http", team="", user="cleo", standing="member"),
    Person(surface="http", team="ops", user="root", standing="member"),
    Person(surface="terminal", user="somebody-else", standing="member"),
    Person(surface="terminal", team="T0TEAM", user="U0BO", standing="member"),
    ANA,  # who asked for the investigation
]


@pytest.mark.threat(4)
async def test_the_wrong_person_is_refused_and_audited(tmp_path: Path, record_property: Record) -> None:
    record = await asked(tmp_path)
    cases = 0
    for site in (settings(tmp_path), make_settings(tmp_path, tools={"allow_load": True})):
        people = STRANGERS if site.approvals.roles.approver else [*STRANGERS, BO, ROOT]
        for person in people:
            audit: list[dict[str, Any]] = []
            with pytest.raises(ApprovalRefused, match=r"no role|full member|somebody else"):
                decide(site, by(person, record), audit=audit.append)
            (told,) = audit
            assert told["counts"] is False and told["by"]["user"] == person.user and told["why"]
            cases += 1
    assert the_one(tmp_path).state == "waiting"
    session = await resumed(tmp_path)
    assert session.ended is None and FileHost(tmp_path / "host.json").read()["restarts"] == 0
    record_property("cases", cases)


@pytest.mark.threat(4)
async def test_who_may_decides_and_is_named(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    audit: list[dict[str, Any]] = []
    done = decide(settings(tmp_path), by(BO, record), audit=audit.append)
    assert (done.state, done.decided_by) == ("approved", BO) and audit[0]["counts"] is True
    session = await resumed(tmp_path)
    given = next(event for event in session.events if event.type == "approval_given")
    assert given.by == "Bo (slack T0TEAM/U0BO)"
    assert the_one(tmp_path).state == "used"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 1


@pytest.mark.threat(4)
async def test_what_is_refused_and_what_counts_stands_in_the_installations_audit(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    with pytest.raises(ApprovalRefused):
        decide(settings(tmp_path), by(STRANGERS[0], record))
    decide(settings(tmp_path), by(BO, record))
    await resumed(tmp_path)
    text = "".join(path.read_text() for path in sorted((tmp_path / "audit").glob("*.jsonl")))
    told = [json.loads(line) for line in text.splitlines()]
    kinds = [one["kind"] for one in told if one["kind"].startswith("approval")]
    assert kinds[:3] == ["approval_asked", "approval_refused", "approval_given"], kinds
    refused, given = (one for one in told if one.get("outcome") in ("refused", "decided"))
    assert "slack:T0TEAM:U0NOBODY" in refused["what"] and "no role" in refused["detail"]
    assert "slack:T0TEAM:U0BO" in given["what"] and given["thread"] == "one"


@pytest.mark.threat(4)
async def test_with_the_audit_down_no_decision_counts(tmp_path: Path) -> None:
    record = await asked(tmp_path)

    def down(told: dict[str, Any]) -> None:
        raise LeadlineError("the audit cannot be written")

    with pytest.raises(LeadlineError, match="audit"):
        decide(settings(tmp_path), by(BO, record), audit=down)
    assert the_one(tmp_path).state == "waiting"


@pytest.mark.threat(4)
async def test_a_person_whose_role_is_taken_away_after_approving_lets_nothing_run(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    decide(settings(tmp_path), by(BO, record))
    session = await resumed(tmp_path, roles={"approver": ["slack:T0TEAM:U0ANA"]})
    assert session.ended is None and FileHost(tmp_path / "host.json").read()["restarts"] == 0
    assert ["no role" in event.why for event in session.events if isinstance(event, ApprovalVoided)] == [True]


@pytest.mark.parametrize("said", [None, True, False])
async def test_whoever_asked_approves_where_the_site_says_so(tmp_path: Path, said: bool | None) -> None:
    record = await asked(tmp_path, requester=None, requester_may_approve=said)
    own = at_terminal()
    if said is False:
        with pytest.raises(ApprovalRefused, match="somebody else"):
            decide(settings(tmp_path, requester_may_approve=said), by(own, record))
        own = BO
    assert decide(settings(tmp_path, requester_may_approve=said), by(own, record)).state == "approved"


async def test_taking_back_is_for_who_approved_and_for_admins(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    site = settings(tmp_path)
    decide(site, by(BO, record))
    cleo = Person(surface="http", team="ops", user="cleo", standing="member")
    with pytest.raises(ApprovalRefused, match="may take it back"):
        decide(site, by(cleo, record, "denied"))
    assert decide(site, by(ROOT, record, "denied", reason="not now")).state == "voided"
    session = await resumed(tmp_path)
    whys = [event.why for event in session.events if isinstance(event, ApprovalVoided)]
    assert whys == ["Root (slack T0TEAM/U0ROOT) took the approval back: not now"]
    assert the_one(tmp_path).id != record.id and the_one(tmp_path).state == "waiting"


@pytest.mark.threat(5)
def test_fifty_clicks_at_once_are_one_decision_and_one_execution(
    tmp_path: Path, record_property: Record
) -> None:
    argv = [sys.executable, str(HERE / "clicking.py"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    clicks = [row for row in rows if "click" in row]
    assert len(clicks) == 50
    assert [row["state"] for row in clicks if "state" in row] == ["approved"]
    assert all("answered already by Bo" in row["refused"] for row in clicks if "refused" in row)
    runs = [row for row in rows if "run" in row]
    assert len(runs) == 10 and sum(row.get("applied", 0) for row in runs) == 1, runs
    host = FileHost(tmp_path / "host.json").read()
    assert host["restarts"] == 1 and len(host["plans"]) == 1
    assert the_one(tmp_path).state == "used"
    record_property("cases", len(clicks))


@pytest.mark.threat(5)
async def test_a_click_delivered_again_is_no_click(tmp_path: Path, record_property: Record) -> None:
    record = await asked(tmp_path)
    site = settings(tmp_path)
    audit: list[dict[str, Any]] = []
    click = ("T0TEAM", "U0BO", "1764000000.000100", "approve")
    first = decide(site, by(BO, record, click=click), audit=audit.append)
    for _ in range(20):
        again = by(BO, record, click=click)
        assert decide(site, again, audit=audit.append) == first
    assert len(audit) == 1
    wrong = by(STRANGERS[0], record, click=("T0TEAM", "U0NOBODY", "1764000000.000100", "approve"))
    for _ in range(2):
        with pytest.raises(ApprovalRefused, match="no role"):
            decide(site, wrong, audit=audit.append)
    assert len(audit) == 2
    record_property("cases", 22)


async def test_denied_once_is_denied(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    decide(settings(tmp_path), by(BO, record, "denied", reason="wait for\x1b[2J Monday"))
    with pytest.raises(ApprovalRefused, match="answered already by Bo"):
        decide(settings(tmp_path), by(ROOT, record))
    session = await resumed(tmp_path)
    given = next(event for event in session.events if event.type == "approval_given")
    assert given.decision == "denied" and given.reason == "wait for\\x1b[2J Monday"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 0


async def test_a_plan_expires_a_policy_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = await asked(tmp_path)
    late = record.expires_at + timedelta(seconds=1)
    with pytest.raises(ApprovalRefused, match="has expired"):
        decide(settings(tmp_path), by(BO, record), now=late)
    assert the_one(tmp_path).state == "expired"
    with pytest.raises(ApprovalRefused, match="does not wait any more"):
        decide(settings(tmp_path), by(BO, record))
    assert (await resumed(tmp_path)).waiting is not None
    other = the_one(tmp_path)
    assert other.id != record.id
    decide(settings(tmp_path), by(BO, other))
    monkeypatch.setattr("agent.approvals_decide.policy_digest", lambda settings: "0" * 64)
    session = await resumed(tmp_path)
    whys = [event.why for event in session.events if isinstance(event, ApprovalVoided)]
    assert whys[-1] == "the command policy was changed since it was asked for"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 0


async def test_a_message_takes_back_what_another_process_approved(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    decide(settings(tmp_path), by(BO, record))
    service = FakeService(FileHost(tmp_path / "host.json"))
    session = open_session(tmp_path, service, moves(outcome="diagnosed"), resume=True)
    async for _ in session.ask("look at the log first"):
        pass
    await session.close()
    old = ApprovalStore(tmp_path).get(record.id)
    assert (old.state, old.reason) == ("voided", "a new message came into the thread")
    assert service.calls == []
    with pytest.raises(ApprovalRefused):
        decide(settings(tmp_path), by(BO, record))


async def test_another_host_key_voids_what_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await asked(tmp_path)
    decide(settings(tmp_path), by(BO, record))
    real = LocalHost.__init__

    def other(host: LocalHost, name: str = "here") -> None:
        real(host, name)
        host.key_fingerprint = "SHA256:another"

    monkeypatch.setattr(LocalHost, "__init__", other)
    session = await resumed(tmp_path)
    whys = [event.why for event in session.events if isinstance(event, ApprovalVoided)]
    assert whys == ["the host shows another key than the plan was made for"]
    assert ApprovalStore(tmp_path).get(record.id).state == "voided"
    assert the_one(tmp_path).host_key == "SHA256:another" and the_one(tmp_path).state == "waiting"
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 0


def edited(edit: Callable[[dict[str, Any]], None]) -> Callable[[Path, ApprovalRecord], None]:
    """Return what edits the stored row of an approval by hand, seal left as it is."""

    def forge(root: Path, record: ApprovalRecord) -> None:
        row = record.model_dump(mode="json")
        edit(row)
        with sqlite3.connect(root / STORE) as connection:
            connection.execute("update approvals set record = ?", (json.dumps(row),))
        connection.close()

    return forge


def another_key(root: Path, record: ApprovalRecord) -> None:
    (root / KEY).unlink()
    edited(lambda row: row.update(state="approved", decided_by=BO.model_dump(mode="json")))(root, record)


def line(root: Path, record: ApprovalRecord) -> None:
    """Append a decision to the transcript that nobody took."""
    path = root / "threads" / "one" / "transcript.jsonl"
    events = [json.loads(text) for text in path.read_text().splitlines()]
    given = {
        "type": "approval_given",
        "seq": len(events),
        "at": datetime.now(UTC).isoformat(),
        "turn": events[-1]["turn"],
        "change": record.change,
        "digest": record.digest,
        "decision": "approved",
        "by": "Bo",
        "reason": "",
    }
    path.write_text(path.read_text() + json.dumps(given) + "\n")


def decided(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update({"state": "approved", "decided_by": BO.model_dump(mode="json")} | fields)


FORGERIES: dict[str, Callable[[Path, ApprovalRecord], None]] = {
    "state flipped": edited(decided()),
    "another digest": edited(decided(digest="0" * 64)),
    "another thread": edited(decided(thread="two")),
    "another change": edited(decided(change="C2")),
    "another host": edited(decided(host="elsewhere")),
    "expiry moved": edited(decided(expires_at="2099-01-01T00:00:00Z")),
    "another requester": edited(lambda row: row.update(requester=BO.model_dump(mode="json"))),
    "another policy": edited(lambda row: row.update(policy_digest="0" * 64)),
    "no record": edited(lambda row: row.clear()),
    "another installation's key": another_key,
    "a line in the transcript": line,
}


@pytest.mark.threat(6)
@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forged_approval_lets_nothing_run(tmp_path: Path, name: str) -> None:
    record = await asked(tmp_path)
    FORGERIES[name](tmp_path, record)
    if name != "a line in the transcript":
        with pytest.raises(ApprovalForged):
            decide(settings(tmp_path), by(BO, record))
    session = await resumed(tmp_path)
    assert not any(isinstance(event, ActionStarted) for event in session.events)
    assert FileHost(tmp_path / "host.json").read()["restarts"] == 0
    assert any(isinstance(event, ApprovalVoided) for event in session.events)
    assert session.waiting is not None and the_one(tmp_path).state == "waiting", "asked for anew"


@pytest.mark.threat(6)
async def test_a_store_of_before_does_not_bring_a_used_approval_back(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    decide(settings(tmp_path), by(BO, record))
    old = tmp_path / "old.sqlite"
    shutil.copy(tmp_path / STORE, old)
    await resumed(tmp_path)
    shutil.copy(old, tmp_path / STORE)
    session = await resumed(tmp_path)
    assert session.ended is not None and FileHost(tmp_path / "host.json").read()["restarts"] == 1


@pytest.mark.threat(6)
async def test_a_transcript_of_before_does_not_use_an_approval_again(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    decide(settings(tmp_path), by(BO, record))
    folder = tmp_path / "threads" / "one"
    shutil.copytree(folder, tmp_path / "old")
    await resumed(tmp_path)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "old", folder)
    session = await resumed(tmp_path)
    assert session.waiting is not None and FileHost(tmp_path / "host.json").read()["restarts"] == 1
    whys = [event.why for event in session.events if isinstance(event, ApprovalVoided)]
    assert len(whys) == 1 and "used" in whys[0], whys


async def test_a_key_that_others_can_read_and_a_damaged_store_are_told(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / STORE).stat().st_mode & 0o777 == 0o600
    (tmp_path / KEY).chmod(0o644)
    with pytest.raises(LeadlineError, match="can be read by others"):
        decide(settings(tmp_path), by(BO, record))
    (tmp_path / KEY).chmod(0o600)
    (tmp_path / STORE).write_bytes(b"no database, and longer than a header of one would be" * 20)
    with pytest.raises(LeadlineError, match=r"approvals\.sqlite is damaged"):
        decide(settings(tmp_path), by(BO, record))


async def test_what_is_not_ours_or_unknown_is_left_alone(tmp_path: Path) -> None:
    record = await asked(tmp_path)
    assert take_back(settings(tmp_path), "nothing", "why") is None
    taken = take_back(settings(tmp_path), record.id, "why")
    assert taken is not None and taken.state == "voided"
    assert take_back(settings(tmp_path), record.id, "again") is None
    with pytest.raises(ApprovalRefused, match="no approval"):
        decide(settings(tmp_path), by(BO, record, approval="nothing"))
    await asyncio.sleep(0)


@pytest.mark.threat(4)
@pytest.mark.skipif(os.geteuid() != 0, reason="another user's state folder can be used by root alone")
@pytest.mark.parametrize("listed", [False, True])
async def test_root_needs_a_role_in_the_state_folder_of_another_user(tmp_path: Path, listed: bool) -> None:
    record = await asked(tmp_path)
    for path in (tmp_path, tmp_path / KEY, tmp_path / STORE):
        os.chown(path, 12345, 12345)
    site = settings(tmp_path, roles={"approver": ["terminal::root"] if listed else []})
    if listed:
        assert decide(site, by(at_terminal(), record)).state == "approved"
        return
    with pytest.raises(ApprovalRefused, match="root has no role"):
        decide(site, by(at_terminal(), record))
    assert the_one(tmp_path).state == "waiting"
