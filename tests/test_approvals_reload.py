"""What a site says of roles and commands is read again between a grant and the change it lets begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.approvals_decide import decide
from agent.approvals_record import ApprovalRefused
from agent.config import Settings, load_settings
from agent.errors import LeadlineError
from agent.events import ApprovalAsked, ApprovalVoided
from agent.session import Session
from tests.approval_parts import ANA, BO, by, the_one
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import LocalHost, ScriptedModel
from tests.trial_parts import moves, ports, redact, tools

SITE = """
[approvals.roles]
approver = ["slack:T0TEAM:U0ANA", "slack:T0TEAM:U0BO"]
[policy]
rules = "{rules}"
"""
RULES = 'hints: {nice: "it changes priorities"}\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config/leadline/config.toml"
    path.parent.mkdir(parents=True)
    (tmp_path / "rules.yaml").write_text(RULES)
    path.write_text(SITE.format(rules=tmp_path / "rules.yaml"))
    return path


def loaded(root: Path) -> Settings:
    return load_settings(state_dir=root / "state", tools={"allow_load": True})


async def granted(root: Path, service: FakeService) -> Session:
    """Return a thread whose one change was approved, and is not begun."""
    session = Session.start(
        loaded(root),
        ScriptedModel(moves(outcome="inconclusive")),
        {"here": LocalHost()},
        "slow",
        "apply",
        requester=ANA,
        tools=tools(service),
        redact=redact,
        ports=ports(service),
    )
    async for _ in session.ask():
        pass
    decide(loaded(root), by(BO, the_one(root / "state")))
    return session


SPOILED = {
    "role lost": (lambda root, text: text.replace(', "slack:T0TEAM:U0BO"', ""), "no role"),
    "roles gone": (lambda root, text: f"[policy]{text.split('[policy]')[1]}", "no role"),
    "typing mistake": (lambda root, text: text.replace("approver", "aprover"), "aprover"),
    "not TOML": (lambda root, text: f"{text}\n=", "not TOML"),
    "other rules": (
        lambda root, text: text.replace('[policy]\nrules = "', '[policy]\n#"'),
        "policy was changed",
    ),
    "rules edited": ("rules.yaml", "policy was changed"),
    "rules broken": ("rules.yaml:", "not YAML"),
    "free form off": (lambda root, text: f"{text}free_form = false\n", "policy was changed"),
}


@pytest.mark.threat(6)
@pytest.mark.parametrize("when", ["before the run goes on", "while the state before is measured"])
@pytest.mark.parametrize("spoiled", sorted(SPOILED))
async def test_a_reload_between_grant_and_begin_voids(
    site: Path, tmp_path: Path, spoiled: str, when: str
) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"))
    session = await granted(tmp_path, service)
    how: Any
    how, why = SPOILED[spoiled]

    def spoil() -> None:
        if callable(how):
            site.write_text(how(tmp_path, site.read_text()))
        else:
            name, broken, _ = how.partition(":")
            (tmp_path / name).write_text("rules: [{" if broken else RULES + "# a word more\n")

    def fault(point: str, side: str) -> None:
        if (point, side) == ("measure", "before"):
            spoil()
            service.fault = lambda point, side: None

    if when.startswith("before"):
        spoil()
    else:
        service.fault = fault
    async for _ in session.ask():
        pass
    await session.close()
    assert service.calls == [], "a change was begun"
    (first, *_) = [event.why for event in session.events if isinstance(event, ApprovalVoided)]
    assert why in first
    assert the_one(tmp_path / "state").state != "approved"


async def test_what_changes_nothing_of_roles_and_rules_voids_nothing(site: Path, tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"))
    session = await granted(tmp_path, service)
    site.write_text(f"# a comment\nmax_turns = 12\n{site.read_text()}")
    async for _ in session.ask():
        pass
    await session.close()
    assert service.calls[0] == "apply"
    assert sum(isinstance(event, ApprovalAsked) for event in session.events) == 1


async def test_a_decision_counts_by_the_roles_of_its_moment(site: Path, tmp_path: Path) -> None:
    service = FakeService(FileHost(tmp_path / "host.json"))
    session = await granted(tmp_path, service)
    long_running = loaded(tmp_path)
    record = the_one(tmp_path / "state")
    site.write_text(site.read_text().replace(', "slack:T0TEAM:U0BO"', ""))
    with pytest.raises(ApprovalRefused, match="no role"):
        decide(long_running, by(BO, record, "denied"))
    site.write_text("=")
    with pytest.raises(LeadlineError, match="TOML"):
        decide(long_running, by(ANA, record, "denied"))
    await session.close()
