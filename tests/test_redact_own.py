"""Our own secrets in any dress, placeholders by the key of an installation, and plans that hold a secret."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import secrets
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import BaseModel, SecretStr

from agent.approvals_decide import decide
from agent.audit import audit_of
from agent.audit_files import CURRENT
from agent.config import Settings
from agent.errors import LeadlineError
from agent.own_secrets import redactor, secrets_of
from agent.surfaces import changes_kept
from tests.approval_parts import BO, asked, by
from tests.approval_parts import settings as settings_of
from tests.canaries import OWN, canaries
from tests.scripted_parts import LocalHost
from tools import redact_own
from tools.contract import Redactor, ToolError
from tools.redact import placeholder, redact
from tools.service_plan import check_shown
from tools.service_standing import Holding


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each test know no secret but its own."""
    monkeypatch.setattr(redact_own, "_process", redact_own._Process())
    yield


@pytest.mark.threat(2)
@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", ":more"])
def test_an_own_secret_is_masked_in_every_dress(before: str, after: str) -> None:
    own = 'pl41n/but+odd "wörds"&~' + secrets.token_hex(4)
    assert redact_own.know(own)
    whole = f"{before}{own}{after}".encode()
    encoded = base64.b64encode(whole).decode()
    for text in (
        own,
        quote(own),
        quote(own, safe=""),
        re.sub("%..", lambda code: code.group().lower(), quote(own, safe="")),
        json.dumps(own),
        json.dumps(own).replace("/", "\\/"),
        json.dumps(json.dumps(own)),
        json.dumps(own, ensure_ascii=False),
        html.escape(own),
        quote(quote(own)),
        "".join(f"%{byte:02X}" for byte in own.encode()),
        own.encode().hex(),
        own.encode().hex().upper(),
        own.encode().hex(":"),
        encoded,
        base64.urlsafe_b64encode(whole).decode(),
    ):
        masked = redact(f"a {text} b".encode()).decode()
        assert "<masked:own_secret:" in masked, text
        assert masked.startswith("a ") and masked.endswith(" b")
        assert placeholder("own_secret", own.encode()).decode() in masked


def test_what_is_short_or_a_dummy_is_no_secret() -> None:
    assert not redact_own.know("short")
    assert not redact_own.know("  EMPTY ")
    assert not redact_own.know("not-needed")
    assert redact(b"short EMPTY not-needed") == b"short EMPTY not-needed"


def test_the_same_secret_has_the_same_placeholder_whatever_gave_it_away() -> None:
    secret = "c4N4ryV4lu3x7Qz"
    texts = [
        f"API_KEY={secret}",
        f"--api-key {secret}",
        f"http://u:{secret}@h/",
        f"machine h login u password {secret}",
    ]
    found = {redact(text.encode()).split(b"<masked:")[1].split(b">")[0] for text in texts}
    assert len(found) == 1


@pytest.mark.threat(2)
def test_a_placeholder_cannot_be_checked_against_a_guess() -> None:
    secret = b"c4N4ryV4lu3x7Qz"
    redact_own.use_key(b"k" * 32)
    first = placeholder("secret", secret)
    redact_own.use_key(b"l" * 32)
    assert placeholder("secret", secret) != first
    redact_own.use_key(b"k" * 32)
    assert placeholder("secret", secret) == first
    assert hashlib.sha256(secret).hexdigest()[:6].encode() not in first
    with pytest.raises(ValueError, match="guessed"):
        redact_own.use_key(b"short")


def test_the_key_of_an_installation_is_made_once_and_kept_private(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state", api_key=SecretStr(OWN))
    first = redactor(settings)(f"x {OWN} API_KEY=abc123def".encode())
    key = tmp_path / "state/redaction.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    assert OWN.encode() not in first and b"abc123def" not in first
    redact_own.use_key(b"0" * 32)
    assert redactor(settings)(f"x {OWN} API_KEY=abc123def".encode()) == first
    assert [path.name for path in key.parent.iterdir()] == ["redaction.key"]


def test_a_broken_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "redaction.key").write_bytes(b"half")
    with pytest.raises(LeadlineError, match=r"redaction\.key holds 4 bytes"):
        redactor(Settings(state_dir=tmp_path))


def test_every_secret_of_the_settings_is_found() -> None:
    class Chat(BaseModel):
        token: SecretStr = SecretStr("xapp-one")
        others: dict[str, list[SecretStr]] = {"a": [SecretStr("two")]}

    class All(BaseModel):
        api_key: SecretStr | None = SecretStr("three")
        none: SecretStr | None = None
        chat: Chat = Chat()

    assert set(secrets_of(All())) == {"xapp-one", "two", "three"}


@pytest.mark.threat(2)
def test_a_plan_that_holds_a_secret_is_refused_and_never_shown_masked(
    record_property: Callable[[str, object], None],
) -> None:
    redact_own.know(OWN)
    cases = 0
    for canary in canaries():
        text = f"[Service]\nExecStart=\nExecStart=/opt/engine --port 1\n{canary.text}\n"
        with pytest.raises(ToolError, match=r"secret|cannot be shown"):
            check_shown([], [], text)
        cases += 1
    record_property("cases", cases)
    check_shown(["/opt/engine"], ["/opt/engine", "--port", "1"], "ExecStart=/opt/engine --port 1\n")


@pytest.mark.threat(2)
def test_an_audit_masks_own_secrets_in_a_process_that_opened_no_thread(tmp_path: Path) -> None:
    """As `leadline host check` and the service's own commands do; the state folder may be full, too."""
    for name in ("kept", "spoiled"):
        settings = Settings(state_dir=tmp_path / name, api_key=SecretStr(OWN))
        if name == "spoiled":
            (tmp_path / name).mkdir()
            (tmp_path / name / "redaction.key").write_bytes(b"short")
        audit = audit_of(settings)
        audit.record("command_started", what=f"look for {OWN}", command=f"grep {quote(OWN)} /var/log/x")
        written = (tmp_path / name / "audit" / CURRENT).read_bytes()
        assert OWN.encode() not in written and quote(OWN).encode() not in written
        assert written.count(b"<masked:own_secret:") == 2


@pytest.mark.threat(2)
async def test_the_reason_of_a_decision_holds_no_own_secret(tmp_path: Path) -> None:
    record = await asked(tmp_path, requester=None)
    redact_own._process = redact_own._Process()
    site = settings_of(tmp_path).model_copy(update={"api_key": SecretStr(OWN)})
    done = decide(site, by(BO, record, "denied", reason=f"not with {OWN}"))
    assert "not with <masked:own_secret:" in done.reason
    assert OWN.encode() not in (tmp_path / "audit" / CURRENT).read_bytes()


@pytest.mark.threat(2)
async def test_measuring_a_kept_change_again_masks_own_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.test_undo import kept_change

    kept, _ = await kept_change(tmp_path)
    redact_own._process = redact_own._Process()
    monkeypatch.setenv("LEADLINE_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LEADLINE_API_KEY", OWN)
    masked = []

    @contextlib.asynccontextmanager
    async def opened(name: str, settings: Settings) -> AsyncIterator[LocalHost]:
        yield LocalHost()

    async def holding(host: LocalHost, plan: object) -> Holding:
        return Holding()

    async def look_again(*args: object, redact: Redactor, **more: object) -> None:
        masked.append(redact(OWN.encode()))

    monkeypatch.setattr(changes_kept, "open_host", opened)
    monkeypatch.setattr("tools.service.holding", holding)
    monkeypatch.setattr("agent.still_holding.look_again", look_again)
    await changes_kept._verify(kept.ref, True)
    assert masked[0].startswith(b"<masked:own_secret:")
