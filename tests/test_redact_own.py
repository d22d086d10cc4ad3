"""Our own secrets in any dress, placeholders by the key of an installation, and plans that hold a secret."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import BaseModel, SecretStr

from agent.config import Settings
from agent.errors import LeadlineError
from agent.own_secrets import redactor, secrets_of
from tests.canaries import OWN, canaries
from tools import redact_own
from tools.contract import ToolError
from tools.redact import placeholder, redact
from tools.service_plan import check_shown


@pytest.fixture(autouse=True)
def another_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each test know no secret but its own."""
    monkeypatch.setattr(redact_own, "_process", redact_own._Process())
    yield


@pytest.mark.threat(2)
@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", ":more"])
def test_an_own_secret_is_masked_in_every_dress(before: str, after: str) -> None:
    own = "pl41n/but+odd wörds~" + secrets.token_hex(4)
    assert redact_own.know(own)
    whole = f"{before}{own}{after}".encode()
    encoded = base64.b64encode(whole).decode()
    for text in (
        own,
        quote(own),
        quote(own, safe=""),
        re.sub("%..", lambda code: code.group().lower(), quote(own, safe="")),
        json.dumps(own),
        own.encode().hex(),
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
