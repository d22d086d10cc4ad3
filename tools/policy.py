"""Decide whether a command may run without a person: parse it, judge its arguments by rules, render it anew.

No string filter decides. What runs is the rendered form, never the text that was judged. What no rule lists
is `ask`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tools.policy_parse import Stage, Unreadable, parse
from tools.policy_paths import read_denied, tree_denied
from tools.policy_rules import Judgement, Rule, Unlisted, rules_by_name, table

__all__ = ["Decision", "judge", "read_denied", "tree_denied"]

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


def judge(command: str) -> Decision:
    """Return what may be done with a command; only `allow` may run without a person."""
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
            builtin |= _judge_stage(judgement, stage).builtin
        except Unlisted as problem:
            reasons.append(f"{stage.argv[0]}: {problem}")
            verdict = "refuse" if problem.dangerous or verdict == "refuse" else "ask"
        reads += judgement.reads
        trees += judgement.trees
    direct = len(stages) == 1 and not builtin and stages[0].stdin is None and not stages[0].redirects
    reason = "; ".join(reasons) or "only reads"
    return Decision(verdict, reason, argv, rendered, tuple(reads), tuple(trees), direct)


def _judge_stage(judgement: Judgement, stage: Stage) -> Rule:
    if stage.stdin is not None:
        judgement.value("read", stage.stdin)
    name, *args = stage.argv
    if name == "timeout" and len(args) >= 2 and _DURATION.fullmatch(args[0]):
        name, *args = args[1:]
    rule = _rule(name)
    judgement.judge(rule, args)
    return rule


def _rule(name: str) -> Rule:
    """Return the rule of a command, given by its name or by its path in a system directory."""
    rules = rules_by_name()
    plain = name
    if match := _SYSTEM.fullmatch(name):
        plain = match[1]
    elif (match := _ELSEWHERE.fullmatch(name)) and (found := rules.get(match[1])) and found.elsewhere:
        return found
    if plain in rules:
        return rules[plain]
    base = name.rsplit("/", 1)[-1]
    hint = table().hints.get(base, "it is not on the list of commands known to only read")
    raise Unlisted(f"needs a person: {hint}", dangerous=base in table().refused)
