"""People, role maps and a thread that waits for an approval, for the tests of approvals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.approvals_decide import Decision
from agent.approvals_record import ApprovalRecord
from agent.approvals_store import ApprovalStore
from agent.config import Settings
from agent.roles import ApprovalSettings, Person
from agent.session import Session
from tests.file_host import FakeService, FileHost
from tests.scripted_parts import make_settings
from tests.trial_parts import moves, open_session

ANA = Person(surface="slack", team="T0TEAM", user="U0ANA", name="Ana", standing="member")
BO = Person(surface="slack", team="T0TEAM", user="U0BO", name="Bo", standing="member")
ROOT = Person(surface="slack", team="T0TEAM", user="U0ROOT", name="Root", standing="member")
ROLES: dict[str, Any] = {
    "roles": {
        "approver": ["slack:T0TEAM:U0ANA", "slack:T0TEAM:U0BO", "http:ops:cleo"],
        "admin": ["slack:T0TEAM:U0ROOT"],
    }
}


def settings(root: Path, **approvals: Any) -> Settings:
    """Return settings with the role map of these tests."""
    return make_settings(root, tools={"allow_load": True}, approvals=ROLES | approvals)


async def asked(root: Path, *, requester: Person | None = ANA, **approvals: Any) -> ApprovalRecord:
    """Start a thread, let it stop at an approval, close it, and return what waits."""
    service = FakeService(FileHost(root / "host.json"))
    session = open_session(root, service, moves(), requester=requester, approvals=ROLES | approvals)
    async for _ in session.ask():
        pass
    await session.close()
    return the_one(root)


def the_one(root: Path) -> ApprovalRecord:
    """Return the last approval of a state folder."""
    store = ApprovalStore(root)
    return store.get(store.ids()[-1])


def by(person: Person, record: ApprovalRecord, decision: Any = "approved", **more: Any) -> Decision:
    """Return a person's decision on an approval."""
    given = {"approval": record.id, "digest": record.digest, "decision": decision, "by": person}
    return Decision(**(given | more))


async def resumed(root: Path, service: FakeService | None = None, **approvals: Any) -> Session:
    """Take the thread up again and let it work until it stops; close it."""
    service = service or FakeService(FileHost(root / "host.json"))
    session = open_session(
        root, service, moves(), resume=True, approvals=ApprovalSettings(**(ROLES | approvals))
    )
    async for _ in session.ask():
        pass
    await session.close()
    return session
