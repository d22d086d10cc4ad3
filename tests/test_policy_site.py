"""A site's own rules: what they may add and take back; a broken file is one line, and nothing runs by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.config import Settings, load_settings
from agent.errors import UsageError
from tools import policy as policy_module
from tools import policy_load
from tools.policy import judge, policy_digest, policy_in_force
from tools.policy_load import SHIPPED, PolicyError
from tools.policy_settings import PolicySettings
from tools.registry import load_all
from tools.run import allowed

OWN: dict[str, Any] = {
    "names": ["fabricctl"],
    "style": "words",
    "words": ["status", "ports", "-v"],
    "leading": "status|ports",
    "accepts": ["fabricctl status", "fabricctl ports -v"],
    "rejects": ["fabricctl reset", "fabricctl"],
}
NO_KUBECTL: dict[str, Any] = {
    "names": ["kubectl"],
    "verdict": "refuse",
    "why": "the cluster is off limits",
    "matches": ["kubectl get pods"],
}
NO_VAULT: dict[str, Any] = {
    "names": ["journalctl"],
    "verdict": "ask",
    "why": "its journal names customers",
    "when": ["vault.*"],
    "matches": ["journalctl -u vault"],
    "passes": ["journalctl -u sglang"],
}


def site(tmp_path: Path, text: str | None = None, **content: Any) -> PolicySettings:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(content) if text is None else text)
    return PolicySettings.model_construct(rules=path)


def test_a_site_adds_commands_and_takes_back_others(tmp_path: Path) -> None:
    settings = site(tmp_path, rules=[OWN], limits=[NO_KUBECTL, NO_VAULT], hints={"frob": "ask the owner"})
    policy = policy_in_force(settings)
    assert judge("fabricctl status", policy).verdict == "allow"
    assert judge("fabricctl reset", policy).verdict == "ask"
    assert judge("fabricctl status").verdict == "ask", "the shipped rules are not changed by it"
    held = judge("kubectl get pods -n x", policy)
    assert (held.verdict, held.reason) == ("refuse", "kubectl: the cluster is off limits")
    assert judge("/usr/bin/kubectl get pods", policy).verdict == "refuse"
    assert judge("timeout 5 kubectl get pods", policy).verdict == "refuse"
    assert judge("ps aux | kubectl get pods", policy).verdict == "refuse"
    assert judge("journalctl -u vault -n 5", policy).verdict == "ask"
    assert judge("journalctl -u sglang", policy).verdict == "allow"
    assert "ask the owner" in judge("frob", policy).reason
    with pytest.raises(Exception, match="off limits"):
        allowed("kubectl get pods", settings)


def test_a_limit_only_takes_back(tmp_path: Path) -> None:
    """What a rule does not accept stays unaccepted, whatever limits say."""
    policy = policy_in_force(site(tmp_path, limits=[NO_VAULT]))
    assert judge("journalctl --rotate", policy).verdict == "refuse"
    assert judge("journalctl -u vault --rotate", policy).verdict == "refuse"


def test_a_site_replaces_a_rule_as_a_whole(tmp_path: Path) -> None:
    wider = {
        "names": ["git"],
        "style": "words",
        "words": ["log", "--oneline", "-[0-9]+"],
        "leading": "log",
        "accepts": ["git log --oneline"],
        "rejects": ["git push", "git log --output=/opt/x"],
    }
    narrower = {"names": ["df"], "flags": "h", "accepts": ["df -h"], "rejects": ["df -i"]}
    policy = policy_in_force(site(tmp_path, rules=[wider, narrower]))
    assert judge("git log --oneline -5", policy).verdict == "allow"
    assert judge("git -c core.pager=id log", policy).verdict == "ask"
    assert judge("df -h", policy).verdict == "allow"
    assert judge("df -i", policy).verdict == "ask"


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "always refused": ({"rules": [OWN | {"names": ["rm"]}]}, "rule rm: names: rm is always refused"),
    "a shell": ({"rules": [OWN | {"names": ["bash"]}]}, "rule bash: names: bash is always refused"),
    "unknown key": (
        {"rules": [OWN | {"allow": "all"}]},
        "fabricctl: rules.0.allow: there is no such field",
    ),
    "unknown part": ({"refused": []}, "refused: there is no such field"),
    "twice": ({"rules": [OWN, OWN]}, "rule fabricctl: names: fabricctl has 2 rules"),
    "twice in one": ({"rules": [OWN | {"names": ["f", "f"]}]}, "rule f: names: f has 2 rules"),
    "a path": ({"rules": [OWN | {"names": ["/bin/x"]}]}, "rules.0: names: give names"),
    "no name": ({"rules": [OWN | {"names": []}]}, "rules.0: names: give names"),
    "no accepts": ({"rules": [OWN | {"accepts": []}]}, "rule fabricctl: accepts: give examples"),
    "no rejects": ({"rules": [OWN | {"rejects": []}]}, "rule fabricctl: rejects: give examples"),
    "accepts fails": (
        {"rules": [OWN | {"accepts": ["fabricctl down"]}]},
        "rule fabricctl: accepts: 'fabricctl down' is not allowed",
    ),
    "rejects fails": (
        {"rules": [OWN | {"rejects": ["fabricctl status"]}]},
        "rule fabricctl: rejects: 'fabricctl status' is allowed",
    ),
    "another's example": (
        {"rules": [OWN | {"accepts": ["ls"]}]},
        "rule fabricctl: accepts: 'ls' is not an example of fabricctl",
    ),
    "no pattern": (
        {"rules": [OWN | {"words": ["(status"]}]},
        "rule fabricctl: words: '(status' is not a pattern",
    ),
    "no kind": (
        {"rules": [{"names": ["f"], "args": "anything", "accepts": ["f x"], "rejects": ["f -x"]}]},
        "rule f: args: 'anything' is no kind of value",
    ),
    "kind below a verb": (
        {
            "rules": [
                {
                    "names": ["f"],
                    "style": "verbs",
                    "verbs": {"x": {"args": "/(/"}},
                    "accepts": ["f x"],
                    "rejects": ["f y"],
                }
            ]
        },
        "rule f: verbs.x.args: '('",
    ),
    "wrong type": ({"rules": [OWN | {"min": "two"}]}, "rule fabricctl: rules.0.min:"),
    "wrong style": ({"rules": [OWN | {"style": "magic"}]}, "rule fabricctl: rules.0.style:"),
    "limit of nothing": (
        {"limits": [NO_KUBECTL | {"names": ["frob"]}]},
        "limits.0: names: there is no rule for frob",
    ),
    "limit that loosens": (
        {"limits": [NO_KUBECTL | {"verdict": "allow"}]},
        "rule kubectl: limits.0.verdict:",
    ),
    "limit without example": ({"limits": [NO_KUBECTL | {"matches": []}]}, "rule kubectl: limits.0.matches:"),
    "limit without why": ({"limits": [NO_KUBECTL | {"why": ""}]}, "rule kubectl: limits.0.why:"),
    "limit misses": (
        {"limits": [NO_VAULT | {"matches": ["journalctl -u x"]}]},
        "limit of journalctl: matches: 'journalctl -u x' is not held back",
    ),
    "limit too wide": (
        {"limits": [NO_VAULT | {"passes": ["journalctl -u vault"]}]},
        "limit of journalctl: passes: 'journalctl -u vault' is not allowed",
    ),
    "limit without a pattern": ({"limits": [NO_VAULT | {"when": ["["]}]}, "limit of journalctl: when: '['"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_line_that_names_the_place(tmp_path: Path, name: str) -> None:
    content, said = BROKEN[name]
    with pytest.raises(PolicyError) as raised:
        policy_in_force(site(tmp_path, **content))
    assert str(raised.value).startswith(f"{tmp_path}/policy.yaml: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [", "line 2: not YAML"),
        ("rules: []\nrules: []\n", "line 2: rules is given twice"),
        ("rules:\n- names: [f]\n  flags: a\n  flags: b\n", "line 4: flags is given twice"),
        ("- a\n", "holds no mapping"),
        ("", "holds no mapping"),
        ("just text", "holds no mapping"),
        ("\x00", "not YAML"),
        ("rules: !!python/object/apply:os.system [id]\n", "not YAML"),
        ("? [a, b]\n: c\n", "line 1: a key is one word"),
    ],
)
def test_what_is_no_file_of_rules_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PolicyError, match=r"policy\.yaml: ") as raised:
        policy_in_force(site(tmp_path, text))
    assert said in str(raised.value)


def test_a_file_that_is_not_there_or_not_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read: No such file"):
        policy_in_force(PolicySettings.model_construct(rules=tmp_path / "absent"))
    with pytest.raises(PolicyError, match="cannot be read: Is a directory"):
        policy_in_force(PolicySettings.model_construct(rules=tmp_path))
    (tmp_path / "bytes").write_bytes(b"rules: \x80\x81")
    with pytest.raises(PolicyError, match="not YAML"):
        policy_in_force(PolicySettings.model_construct(rules=tmp_path / "bytes"))
    (tmp_path / "huge").write_bytes(b"# " + b"x" * (2 << 20))
    with pytest.raises(PolicyError, match="larger than"):
        policy_in_force(PolicySettings.model_construct(rules=tmp_path / "huge"))


def test_nothing_starts_with_a_broken_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = site(tmp_path, rules=[OWN | {"rejects": ["fabricctl status"]}]).rules
    monkeypatch.setenv("LEADLINE_POLICY__RULES", str(broken))
    says = r"policy\.rules in the variable LEADLINE_POLICY__RULES: .*rule fabricctl: rejects: .* is allowed"
    with pytest.raises(UsageError, match=says):
        load_settings()
    monkeypatch.setenv("LEADLINE_POLICY__RULES", "policy.yaml")
    with pytest.raises(UsageError, match="not a full path"):
        load_settings()


def test_a_file_that_breaks_later_stops_every_command(tmp_path: Path) -> None:
    settings = site(tmp_path, rules=[OWN])
    assert allowed("ls", settings).verdict == "allow"
    assert settings.rules is not None
    settings.rules.write_text("rules: [")
    with pytest.raises(PolicyError, match="not YAML"):
        allowed("ls", settings)


def test_the_settings_reach_the_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEADLINE_POLICY__RULES", str(site(tmp_path, rules=[OWN]).rules))
    settings = load_settings()
    assert settings.tools.policy == settings.policy
    assert allowed("fabricctl status", settings.tools.policy).verdict == "allow"
    with pytest.raises(ValueError, match=r"under \[policy\]"):
        Settings(tools={"policy": {"free_form": False}})


def test_free_form_commands_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "run" in load_all(load_settings().tools)
    monkeypatch.setenv("LEADLINE_POLICY__FREE_FORM", "false")
    offered = load_all(load_settings().tools)
    assert "run" not in offered
    assert {"facts", "grep", "read_file", "journal"} <= set(offered)


def test_the_digest_names_every_byte_of_the_rules(tmp_path: Path) -> None:
    settings = site(tmp_path, rules=[OWN])
    first = policy_digest(settings)
    assert policy_digest(settings) == first != policy_digest(PolicySettings())
    assert settings.rules is not None
    settings.rules.write_text(settings.rules.read_text() + "# one more word\n")
    assert policy_digest(settings) != first
    assert policy_digest(PolicySettings(free_form=False)) != policy_digest(PolicySettings())


def _shipped_as(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    monkeypatch.setattr(policy_load, "SHIPPED", path)
    policy_load.shipped.cache_clear()


def test_a_shipped_rule_that_fails_its_examples_refuses_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit that lets ``find -delete`` pass is found by the rule's own example before the first use."""
    text = SHIPPED.read_text()
    assert text.count("print|print0") == 1
    try:
        _shipped_as(monkeypatch, tmp_path, text.replace("print|print0", "print|delete|print0"))
        decision = judge("find /opt -name x")
        assert decision.verdict == "refuse"
        assert "'find /opt -delete' is allowed" in decision.reason
        assert judge("find /opt -delete").verdict == "refuse"
        assert judge("ls /opt").verdict == "allow", "the others go on"
        _shipped_as(monkeypatch, tmp_path, text.replace("rules:\n", "rules:\n- names: [ls]\n", 1))
        with pytest.raises(PolicyError, match="ls has 2 rules"):
            judge("ls /opt")
    finally:
        monkeypatch.undo()
        policy_load.shipped.cache_clear()
    assert policy_module.judge("find /opt -name x").verdict == "allow"
