"""Decide whether a command may run without a person: parse it, judge its arguments by rules, render it anew.

No string filter decides. What runs is the rendered form, never the text that was judged. What no rule lists
is `ask`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

from tools.policy_examples import problem_of_limit, problem_of_rule
from tools.policy_load import Limit, Policy, PolicyError, shipped, site_bytes, with_site
from tools.policy_parse import Stage, Unreadable, parse
from tools.policy_paths import read_denied, tree_denied
from tools.policy_rules import Judgement, Rule, Unlisted, compiled
from tools.policy_settings import PolicySettings

__all__ = ["Decision", "judge", "policy_digest", "policy_in_force", "read_denied", "tree_denied"]

Verdict = Literal["allow", "ask", "refuse"]

_SYSTEM = re.compile(r"(?:/usr)?(?:/local)?/s?bin/([A-Za-z0-9_.+-]+)")
_PART = r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]*"
_ELSEWHERE = re.compile(rf"/(?:opt|usr/local)/(?:{_PART}/)*bin/({_PART})")
_DURATION = re.compile(r"[0-9]{1,4}(?:\.[0-9]+)?[sm]?")


@dataclass(frozen=True, slots=True)
class Decision:
    """Say whether a command may run, why not, and exactly what would run."""

    verdict: Verdict
    reason: str
    argv: tuple[tuple[str, ...], ...] = ()
    rendered: str = ""
    reads: tuple[str, ...] = ()
    """Paths the command opens; a tool judges where they really lead before it runs the command."""
    trees: tuple[str, ...] = ()
    """Those of ``reads`` below which every file is read."""
    direct: bool = False
    """True when ``argv[0]`` can be started as it is; otherwise ``sh -c rendered`` is what runs."""


def policy_in_force(settings: PolicySettings) -> Policy:
    """Return the rules as they are on disk now; raise `PolicyError` when a site's file cannot be used."""
    if settings.rules is None:
        return shipped()
    return _site(settings.rules, site_bytes(settings.rules))


def policy_digest(settings: PolicySettings) -> str:
    """Return what names the policy in force: it changes with every byte of its rules, and its switches."""
    digest = policy_in_force(settings).digest
    return digest if settings.free_form else f"{digest}-without-free-form"


@lru_cache(maxsize=8)
def _site(path: Path, data: bytes) -> Policy:
    """Return a site's rules after all their examples were tried; a file is tried once for its content."""
    policy = with_site(path, data)
    unlimited = replace(policy, limits={})
    for name in sorted(policy.site_names):
        if why := problem_of_rule(policy.rules[name], partial(judge, policy=unlimited)):
            raise PolicyError(f"{path}: rule {name}: {why}")
    for limits in policy.limits.values():
        for limit in limits:
            if why := problem_of_limit(limit, partial(judge, policy=policy)):
                raise PolicyError(f"{path}: limit of {', '.join(limit.names)}: {why}")
    return policy


def judge(command: str, policy: Policy | None = None) -> Decision:
    """Return what may be done with a command; only `allow` may run without a person."""
    policy = policy or shipped()
    try:
        stages = parse(command)
    except Unreadable as problem:
        return Decision("refuse" if problem.dangerous else "ask", str(problem))
    argv = tuple(stage.argv for stage in stages)
    rendered = " | ".join(stage.rendered for stage in stages)
    reads: list[str] = []
    trees: list[str] = []
    builtin = False
    verdict: Verdict = "allow"
    reasons: list[str] = []
    for index, stage in enumerate(stages):
        judgement = Judgement(piped=index > 0 or stage.stdin is not None)
        try:
            builtin |= _judge_stage(policy, judgement, stage).builtin
        except Unlisted as problem:
            reasons.append(f"{stage.argv[0]}: {problem}")
            verdict = "refuse" if problem.dangerous or verdict == "refuse" else "ask"
        reads += judgement.reads
        trees += judgement.trees
    direct = len(stages) == 1 and not builtin and stages[0].stdin is None and not stages[0].redirects
    reason = "; ".join(reasons) or "only reads"
    return Decision(verdict, reason, argv, rendered, tuple(reads), tuple(trees), direct)


def _judge_stage(policy: Policy, judgement: Judgement, stage: Stage) -> Rule:
    if stage.stdin is not None:
        judgement.value("read", stage.stdin)
    name, *args = stage.argv
    if name == "timeout" and len(args) >= 2 and _DURATION.fullmatch(args[0]):
        name, *args = args[1:]
    plain = _named(policy, name)
    rule = policy.rules[plain]
    _prove(policy, plain)
    judgement.judge(rule, args)
    for limit in policy.limits.get(plain, ()):
        if _holds_back(limit, args):
            raise Unlisted(limit.why, dangerous=limit.verdict == "refuse")
    return rule


def _holds_back(limit: Limit, args: Sequence[str]) -> bool:
    return not limit.when or any(compiled(pattern).fullmatch(arg) for pattern in limit.when for arg in args)


def _prove(policy: Policy, name: str) -> None:
    """Try a shipped rule with its own examples before its first use; those of a site were tried when read."""
    if policy.is_from_site(name) or name in shipped().proven:
        return
    rule = policy.rules[name]
    shipped().proven.update(rule.names)
    if why := problem_of_rule(rule, judge):
        shipped().proven.difference_update(rule.names)
        raise Unlisted(f"its rule in policy.yaml cannot be used: {why}", dangerous=True)


def _named(policy: Policy, name: str) -> str:
    """Return the command that has a rule, given by its name or by its path in a system directory."""
    plain = name
    if match := _SYSTEM.fullmatch(name):
        plain = match[1]
    elif (match := _ELSEWHERE.fullmatch(name)) and (found := policy.rules.get(match[1])) and found.elsewhere:
        return match[1]
    if plain in policy.rules:
        return plain
    base = name.rsplit("/", 1)[-1]
    hint = policy.hints.get(base, "it is not on the list of commands known to only read")
    raise Unlisted(f"needs a person: {hint}", dangerous=base in policy.refused)
