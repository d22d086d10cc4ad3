"""Judge commands as `run` would, show the rules in force, and check a site's own file of rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agent.surfaces.options import JsonOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tools.policy import Decision
    from tools.policy_load import Policy
    from tools.policy_settings import PolicySettings

policy = typer.Typer(no_args_is_help=True, help="Which commands may run without a person, and why.")

RulesOption = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", help="A site's rules; default: those in force.")
]
_LONGEST: Final = 64 << 10


@policy.command("check")
def check(rules: RulesOption = None) -> None:
    """Judge the commands on stdin, one a line or as JSON lists, and print a JSON line for each; runs nothing.

    Example: echo 'ps aux | grep sglang' | leadline policy check
    """
    import sys

    if sys.stdin.isatty():
        sys.stderr.write("one command a line; end with Ctrl-D\n")
    settings = _settings(rules)
    in_force = _in_force(settings)
    broken = False
    for row in rows(sys.stdin.buffer, in_force, free_form=settings.free_form):
        broken |= "error" in row
        _print(row)
    if broken:
        raise typer.Exit(1)


@policy.command("show")
def show(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One command; default: all.")] = None,
    rules: RulesOption = None,
    json_: JsonOption = False,
) -> None:
    """List the commands that have a rule, or print one rule with its limits and examples.

    Example: leadline policy show journalctl
    """
    import sys

    settings = _settings(rules)
    in_force = _in_force(settings)
    if name is not None:
        _show_one(in_force, name, as_json=json_)
        return
    if json_:
        names = [{"name": one, "from": _origin(in_force, one)} for one in sorted(in_force.rules)]
        _print({"digest": in_force.digest, "free_form": settings.free_form, "rules": names})
        return
    lines = [f"policy {in_force.digest[:16]}, free-form commands {'on' if settings.free_form else 'off'}"]
    lines += [_line(in_force, one) for one in sorted(in_force.rules)]
    sys.stdout.write("\n".join(lines) + "\n")


@policy.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A site's file of rules.")], json_: JsonOption = False
) -> None:
    """Check a site's file of rules and all its examples; exit 1 with file, rule and field of what is wrong.

    Example: leadline policy verify /etc/leadline/policy.yaml
    """
    import sys

    from tools.display import printable
    from tools.policy_settings import PolicySettings

    found = _in_force(PolicySettings.model_construct(rules=file.absolute()))
    limits = {id(limit): limit for one in found.limits.values() for limit in one}.values()
    own = {id(rule): rule for name, rule in found.rules.items() if found.is_from_site(name)}.values()
    examples = sum(len(rule.accepts) + len(rule.rejects) for rule in own)
    examples += sum(len(limit.matches) + len(limit.passes) for limit in limits)
    row = {
        "file": str(file),
        "rules": len(own),
        "limits": len(limits),
        "examples": examples,
        "digest": found.digest,
    }
    if json_:
        _print(row)
        return
    sys.stdout.write(
        printable(
            f"{file}: {len(own)} rules, {len(limits)} limits, {examples} examples: all as they should be\n"
        )
    )


def rows(lines: Iterable[bytes], in_force: Policy, *, free_form: bool) -> Iterator[dict[str, Any]]:
    """Return what is said of each line; a line that cannot be read is reported, and the rest go on."""
    for number, line in enumerate(lines, start=1):
        if len(line) > _LONGEST:
            yield {"line": number, "error": f"longer than {_LONGEST} bytes"}
            continue
        try:
            text = line.decode("utf-8").rstrip("\n").removesuffix("\r")
            given = _given(text)
        except ValueError as error:
            yield {"line": number, "error": str(error)}
            continue
        if given is not None:
            yield {"line": number, **given, **_verdict(given, in_force, free_form=free_form)}


def _given(text: str) -> dict[str, Any] | None:
    """Return the command or the argument list of a line, or None for a blank one."""
    import json

    if not text.strip():
        return None
    if text.lstrip().startswith("["):
        try:
            argv = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            return {"command": text}
        if not argv or not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
            raise ValueError("a list of arguments holds one or more strings and nothing else")
        return {"argv": argv}
    return {"command": text}


def _verdict(given: Mapping[str, Any], in_force: Policy, *, free_form: bool) -> dict[str, Any]:
    import shlex

    from tools.policy import judge
    from tools.policy_settings import SWITCHED_OFF

    decision: Decision = judge(
        given["command"] if "command" in given else shlex.join(given["argv"]), in_force
    )
    runs = decision.argv if free_form and decision.verdict == "allow" else ()
    return {
        "verdict": decision.verdict if free_form else "refuse",
        "reason": decision.reason if free_form else SWITCHED_OFF,
        "runs": [list(argv) for argv in runs],
        "rendered": decision.rendered,
    }


def _settings(rules: Path | None) -> PolicySettings:
    from agent.config import load_settings

    settings = load_settings().policy
    return settings if rules is None else settings.model_copy(update={"rules": rules.absolute()})


def _in_force(settings: PolicySettings) -> Policy:
    from agent.errors import LeadlineError
    from tools.policy import policy_in_force
    from tools.policy_load import PolicyError

    try:
        return policy_in_force(settings)
    except PolicyError as error:
        raise LeadlineError(str(error), do="nothing runs by such rules; docs/policy.md") from error


def _show_one(in_force: Policy, name: str, *, as_json: bool) -> None:
    import sys

    import yaml

    rule = in_force.rules.get(name)
    limits = [limit.model_dump(exclude_defaults=True) for limit in in_force.limits.get(name, ())]
    shown: dict[str, Any] = {"name": name, "from": _origin(in_force, name)}
    if rule is None:
        shown["why"] = in_force.hints.get(name, "it is not on the list of commands known to only read")
    else:
        shown |= {"rule": rule.model_dump(exclude_defaults=True), "limits": limits}
    if as_json:
        _print(shown)
        return
    sys.stdout.write(yaml.safe_dump(shown, sort_keys=False, width=100))


def _origin(in_force: Policy, name: str) -> str:
    if in_force.is_from_site(name):
        return str(in_force.site)
    if name in in_force.rules:
        return "shipped"
    return "always refused" if name in in_force.refused else "no rule: needs a person"


def _line(in_force: Policy, name: str) -> str:
    limits = [f"{limit.verdict}: {limit.why}" for limit in in_force.limits.get(name, ())]
    origin = f"  [{in_force.site}]" if in_force.is_from_site(name) else ""
    return f"{name}{origin}{'  ' + '; '.join(limits) if limits else ''}"


def _print(row: Mapping[str, Any]) -> None:
    import json
    import sys

    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
