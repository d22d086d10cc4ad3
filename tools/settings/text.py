"""Print settings for people: the value in force, how it came about, what cannot happen, who reads it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tools.settings.text_asked import asked_lines

WIDTH: Final = 80
_MOST_READERS: Final = 8
_MOST_STEPS: Final = 5
_MOST_SUSPECTS: Final = 12
_MOST_NAMES: Final = 40
_MOST_NEEDS: Final = 4


def lines_of(view: Mapping[str, Any]) -> list[str]:
    """Return the text of a view: one setting in full, or a table of those that differ."""
    out = list(_head(view))
    if "suspects" in view:
        return [*out, "", *_suspects(view["suspects"])]
    if "problems" in view:
        return [*out, "", *_problems(view["problems"])]
    asked = ["", *asked_lines(view["asked"])] if "asked" in view else []
    settings: Mapping[str, Any] = view.get("settings", {})
    if asked and not settings:
        return [*out, *asked]
    whole = [name for name, one in settings.items() if "overwrites" in one]
    for name in whole:
        out += ["", *_setting(name, settings[name])]
    if not whole:
        out += [*_acceptance(view), "", *_table(settings)]
    return out + asked


def _head(view: Mapping[str, Any]) -> Iterator[str]:
    where = f", process {view['pid']} on {view['host']}" if "host" in view else ""
    yield from _wrapped(f"{view['engine']} {view['version']}{where}", "")
    if source := view.get("source"):
        yield from _wrapped(f"source: {source['package']} ({source['environment']})", "  ")
        if "record" in source and "changed" not in source:
            yield from _wrapped(source["record"], "  ")
    if view["accepted"] is False and "host" not in view:
        at = f" ({view['refused_at']})" if view.get("refused_at") else ""
        yield from _wrapped(f"the engine refuses this launch line: {view['refusal']}{at}", "  ")
    for note in [*view.get("notes", ()), *view.get("not_permitted", ())]:
        yield from _wrapped(f"! {note}", "  ", "    ")
    if view["partial"]:
        yield from _wrapped(f"! partial: {view['partial']}", "  ", "    ")


def _acceptance(view: Mapping[str, Any]) -> Iterator[str]:
    needs = view.get("accepted_needs", ()) if "host" not in view else ()
    if needs:
        shown = "; ".join(needs[:_MOST_NEEDS]) + (" and more" if len(needs) > _MOST_NEEDS else "")
        yield from _wrapped(f"whether the engine accepts this launch line depends on: {shown}", "  ", "    ")


def _wrapped(text: str, first: str, later: str | None = None) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def _value(one: Mapping[str, Any]) -> str:
    if one["known"]:
        return repr(one["value"])
    if one["alternatives"]:
        return "one of " + ", ".join(repr(value) for value in one["alternatives"][:6])
    return "unknown"


def _setting(name: str, one: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"{name} = {_value(one)}   [{one['class']}]", "")
    if source := one.get("source_of_value"):
        yield from _wrapped(
            f"as told by {source}" if source != "source" else "as the source works it out", "  "
        )
    if one["needs"]:
        yield from _wrapped(f"what would decide it: {'; '.join(one['needs'])}", "  ", "    ")
    for asked in one.get("requested", ()):
        yield from _requested(asked)
    if one.get("disagrees"):
        yield from _wrapped(
            f"! the engine says {one['disagrees']['engine']!r}, the source as it was evaluated gives "
            f"{one['disagrees']['evaluated']!r}",
            "  ",
            "    ",
        )
    if one.get("contradicted"):
        yield "  ! what is observed does not fit this value"
    for seen in one.get("observed", ()):
        yield from _wrapped(f"observed: {seen['text']} ({seen['source']})", "  ", "    ")
    if log := one.get("log"):
        yield from _wrapped(f"log: {log}", "  ", "    ")
    yield from (f"  {line}" for line in _given(one))
    yield from _derivation(one["steps"])
    yield from _overwrites(name, one.get("overwrites", ()))
    yield from _readers(one.get("readers", ()))
    yield from _about(one["definition"])


def _requested(asked: Mapping[str, Any]) -> Iterator[str]:
    value = f" {asked['value']}" if asked["value"] is not None else ""
    where = f" ({asked['way']}: {asked['where']})" if asked["where"] else ""
    state = "" if asked.get("in_force", True) else ", not what the process was started with"
    yield from _wrapped(f"asked for: {asked['word']}{value}{where}{state}", "  ", "    ")
    if asked.get("remark"):
        yield from _wrapped(f'"{asked["remark"]}"', "    ")


def _derivation(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Print the step that gives the value with all that holds for it, then the others in short."""
    deciding = [step for step in steps if step.get("decides")]
    if deciding:
        yield "Derivation"
        for step in deciding:
            yield from _step(step)
    others = [step for step in reversed(steps) if not step.get("decides")]
    if others:
        yield "Before that, or as well" if deciding else "Derivation, the last step first"
    # One line that is followed on several ways stands here once.
    shown = list(dict.fromkeys("\n".join(_brief(step)) for step in others))
    yield from (line for text in shown[:_MOST_STEPS] for line in text.split("\n"))
    if len(shown) > _MOST_STEPS:
        yield f"  ... {len(shown) - _MOST_STEPS} more with --json"


def _brief(step: Mapping[str, Any]) -> Iterator[str]:
    value = repr(step["value"]) if step["known"] else "?"
    cite = f" [{_short(step['cite'])}]" if step["cite"] else ""
    yield from _wrapped(f"{value} <- {step['origin']}: {step['text']}{cite}", "  ", "      ")
    open_ones = [one for one in step["conditions"] if one["verdict"] != "true"]
    for one in open_ones[:2]:
        yield from _wrapped(f"{one['verdict']}: {one['text']} [{_short(one['cite'])}]", "      ", "        ")


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    value = repr(step["value"]) if step["known"] else "?"
    yield from _wrapped(f"{value} <- {step['origin']}: {step['text']}", "  ", "      ")
    if step["cite"]:
        yield from _wrapped(step["cite"], "      ")
    for call in step.get("calls", ()):
        yield from _wrapped(f"called at {call}", "      ", "        ")
    for condition in step["conditions"]:
        yield from _condition(condition, "      ")
    if step["origin"] == "overwrite":
        logged = step["logged"]
        yield from _wrapped(
            f"logged: {logged}" if logged else "silent: nothing is logged beside it", "      ", "        "
        )


def _condition(one: Mapping[str, Any], indent: str) -> Iterator[str]:
    yield from _wrapped(f"{one['verdict']}: {one['text']}", indent, indent + "  ")
    yield from _wrapped(f"{one['because']} [{_short(one['cite'])}]", indent + "  ", indent + "  ")


def _short(cite: str) -> str:
    return cite.partition("@")[0]


def _overwrites(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    titles = (
        ("fires", "Assignments that happen"),
        ("unknown", "Assignments that may happen"),
        ("cannot fire", "Assignments that cannot happen here"),
    )
    for result, title in titles:
        chosen = [row for row in rows if row["result"] == result and not row.get("pair")]
        if not chosen:
            continue
        yield f"{title} ({len(chosen)})"
        for row in chosen:
            yield from _wrapped(f"{_short(row['cite'])}  {name} = {row['text']}", "  ", "      ")
            place = f" [{_short(row['decided_at'])}]" if row.get("decided_at") else ""
            yield from _wrapped(f"{row['because']}{place}", "      ")
    pairs = [row for row in rows if row.get("pair") and row["pair"]["role"] == "temporary"]
    if pairs:
        yield f"Assignments for a while, restored in the same function ({len(pairs)})"
    for row in pairs:
        what = f"{name} = {row['text']} until line {row['pair']['restored']}"
        yield from _wrapped(f"{_short(row['cite'])}  {what}: {row['result']}", "  ", "      ")


def _readers(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if rows:
        yield f"Readers ({len(rows)}), those that decide most first"
    for row in rows[:_MOST_READERS]:
        yield from _wrapped(f"{_short(row['cite'])}  {row['symbol'] or ''} ({row['use']})", "  ", "      ")
        yield from _wrapped(row["text"], "      ")
    if len(rows) > _MOST_READERS:
        yield f"  ... {len(rows) - _MOST_READERS} more with --json"


def _about(definition: Mapping[str, Any] | None) -> Iterator[str]:
    if definition is None:
        return
    yield "Definition"
    default = repr(definition["default"]) if definition["default_known"] else definition["default_text"]
    kind = f"{definition['type'] or 'no type'}, default {default}"
    yield from _wrapped(f"{definition['owner']}.{definition['name']}: {kind}", "  ", "    ")
    yield from _wrapped(definition["cite"], "  ")
    if definition["choices"]:
        yield from _wrapped(f"choices: {', '.join(map(str, definition['choices']))}", "  ", "    ")
    if definition["flags"]:
        yield from _wrapped(f"flags: {', '.join(definition['flags'])}", "  ", "    ")
    if definition["deprecated"]:
        yield from _wrapped(f"deprecated: {definition['deprecated']}", "  ", "    ")
    if definition["help"]:
        yield from _wrapped(definition["help"], "  ")
    if definition["shallow"]:
        yield "  known by its help text alone: this engine is not Python"


def _table(settings: Mapping[str, Any]) -> Iterator[str]:
    """Return a row for every setting that is no plain default."""
    shown = {name: one for name, one in settings.items() if _differs(one)}
    yield f"{'setting':<32} {'in force':<22} how it came about"
    for name, one in shown.items():
        value = textwrap.shorten(_value(one), 22, placeholder="...") or _value(one)[:19] + "..."
        if len(name) > 32:
            yield name
            name = ""
        yield f"{name:<32} {value[:22]:<22} {one['class']}".rstrip()
        for line in _reasons(one):
            yield from _wrapped(line, "    ", "      ")
    unknown = [name for name, one in settings.items() if not one["known"]]
    rest = len(settings) - len(shown) - len([name for name in unknown if name not in shown])
    yield f"{rest} more at their default."
    if unknown:
        more = len(unknown) - _MOST_NAMES
        names = ", ".join(unknown[:_MOST_NAMES]) + (f" and {more} more with --json" if more > 0 else "")
        yield from _wrapped(f"{len(unknown)} cannot be told: {names}", "", "  ")
        if needs := _most_needed(settings[name]["needs"] for name in unknown):
            yield from _wrapped(f"most of them need: {'; '.join(needs)}", "  ", "    ")


def _most_needed(needs: Iterable[Sequence[str]]) -> list[str]:
    """Return what the most settings need, that which decides most first."""
    counted = Counter(need for one in needs for need in dict.fromkeys(one))
    return [need for need, _ in counted.most_common(_MOST_NEEDS)]


def _given(one: Mapping[str, Any]) -> Iterator[str]:
    """Say which assignment gave a value that only the engine tells, or which ones may have."""
    if given := one.get("given_by"):
        yield f"set at {_short(given)}"
    for place in one.get("perhaps_by", ()):
        yield f"perhaps set at {_short(place)}"


def _suspects(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows[:_MOST_SUSPECTS]:
        yield from _wrapped(f"{row['name']} = {row['value']!r} [{row['kind']}]", "")
        if "engine_says" in row:
            yield from _wrapped(f"! the engine says {row['engine_says']!r}", "  ", "    ")
        for asked in row.get("requested", ()):
            yield from _requested(asked)
        for reason in row["reasons"]:
            place = f" [{_short(reason['cite'])}]" if reason["cite"] else ""
            yield from _wrapped(f"{reason['text']}{place}", "  ", "    ")
    if len(rows) > _MOST_SUSPECTS:
        yield f"... {len(rows) - _MOST_SUSPECTS} more with --json"
    if not rows:
        yield "no setting is seen to leave an optimisation unused"


def _problems(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        place = f" [{_short(row['cite'])}]" if row["cite"] else ""
        yield from _wrapped(f"{row['level']}: {row['message']}{place}", "", "  ")
        if row["nearest"]:
            yield from _wrapped(f"write: {row['nearest']}", "  ", "    ")
    if not rows:
        yield "nothing to say against this launch line"


def _differs(one: Mapping[str, Any]) -> bool:
    return bool(one["class"] not in ("default", "unknown") or one.get("disagrees") or one.get("contradicted"))


def _reasons(one: Mapping[str, Any]) -> Iterator[str]:
    for asked in one.get("requested", ()):
        value = f" {asked['value']}" if asked["value"] is not None else ""
        yield f"{asked['word']}{value}" + (f" ({asked['where']})" if asked["where"] else "")
    for step in one["steps"]:
        if step.get("decides") and step["cite"] and "override" in one["class"]:
            yield f"{step['text']} [{_short(step['cite'])}]"
    yield from _given(one)
    if one.get("log"):
        yield f"log: {one['log'][:160]}"
    if one.get("disagrees"):
        yield f"! the engine's word; the source as evaluated gives {one['disagrees']['evaluated']!r}"
    if one.get("contradicted"):
        yield "! what is observed does not fit: " + "; ".join(seen["text"] for seen in one["observed"])
