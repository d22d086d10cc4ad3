"""The rules of gitleaks: all are read, keywords choose among them, thresholds and allowed values hold."""

from __future__ import annotations

import random
import string
import tomllib
from pathlib import Path

import pytest

from tests.canaries import ALNUM
from tools import redact_rules
from tools.redact import redact

ROOT = Path(__file__).parent.parent
RULES = tomllib.loads((ROOT / "tools/gitleaks.toml").read_text())["rules"]


def made(letters: str, count: int, seed: int = 3) -> str:
    return "".join(random.Random(seed).choices(letters, k=count))


def test_every_rule_that_needs_no_file_name_is_tried() -> None:
    wanted = {rule["id"] for rule in RULES if "regex" in rule and "path" not in rule}
    assert set(redact_rules.names()) == wanted - {"private-key"}
    assert len(redact_rules.names()) > 210
    for name in redact_rules.names():
        assert redact_rules._rule(name).pattern.groups >= 0


def test_the_licence_stands_beside_the_rules() -> None:
    text = (ROOT / "tools/gitleaks.LICENSE").read_text()
    assert "MIT License" in text and "Copyright (c) 2019 Zachary Rice" in text


@pytest.mark.threat(2)
@pytest.mark.parametrize(
    "text",
    [
        "AGE-SECRET-KEY-1" + made("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
        "stripe sk_live_" + made(ALNUM, 30),
        "SG." + made(ALNUM, 22) + "." + made(ALNUM, 43, 5),
        "hvs." + made(ALNUM, 95),
        "dapi" + made("0123456789abcdef", 32),
        "new_relic = NRAK-" + made(string.ascii_uppercase + string.digits, 27),
        "lin_api_" + made(ALNUM, 40),
        "perplexity: pplx-" + made(ALNUM, 48),
        "datadog_setting: " + made(string.ascii_lowercase + string.digits, 40),
        "cloudflare = '" + made(string.ascii_lowercase + string.digits, 40) + "'",
    ],
)
@pytest.mark.parametrize("end", ["", " x", ", x", '"', ")", "\0", "\x1b[0m", "\nnext"])
def test_a_secret_that_only_a_rule_knows_is_masked_before_any_end(text: str, end: str) -> None:
    secret = max(text.replace("'", " ").split(), key=len)
    assert secret.encode()[-16:] not in redact((text + end).encode())


def test_a_value_below_the_threshold_stays() -> None:
    low = "hvs." + "a" * 95
    assert redact(low.encode()) == low.encode()
    assert redact_rules.entropy(b"abababab") == 1.0 and redact_rules.entropy(b"") == 0.0


def test_an_allowed_value_stays() -> None:
    allowed = "s." + made(string.ascii_letters, 24)
    assert list(redact_rules.found(allowed.encode())) == []
    assert list(redact_rules.found(b"vault s." + made(ALNUM, 22, 9).encode() + b"4z\n"))


def test_text_without_a_keyword_tries_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(redact_rules, "_rule", lambda name: tried.append(name))
    assert list(redact_rules.found(b"nothing to find here, 12:00:01 running 4\n" * 100)) == []
    assert tried == []
