"""Tell a model what is known of settings in few words: each line can be quoted, nothing is said twice.

Places are ``PATH:LINE``; `answer` puts the handle of the kept file there. A value that decides a condition is
quoted from the launch line, or from what the engine tells, or from the line in ``facts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.definitions import HIDDEN, is_secret
from tools.settings.difference import Difference, same
from tools.settings.outcomes import Outcome
from tools.settings.overwrites import Overwrite
from tools.settings.plain import plain
from tools.settings.quoting import Quoting
from tools.settings.readers import Reader, readers_of
from tools.settings.subject import Subject
from tools.settings.types import Condition
from tools.settings.view import setting_view
from tools.settings.view_assignments import explain, judged_assignments, overwrite_view

MOST_READERS: Final = 6
"""Lines that are shown of those that read a setting, each once however often it stands in the package."""
_MOST_PLACES: Final = 4
_ORDER: Final = ("fires", "unknown", "cannot fire")
_SHORT: Final = 80
"""Characters of a value that decides something; a longer one is described."""

Found = Sequence[tuple[Overwrite, Outcome]]


def settings_brief(subject: Subject, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings named, and where the values stand that decide their assignments."""
    brief = _Brief(subject, Quoting(subject.tree))
    written, read = judged_assignments(subject, names), readers_of(subject.tree, names)
    settings = {name: brief.setting(name, written.get(name, ()), read.get(name, ())) for name in names}
    places = {name: place for name, place in brief.facts.items() if place != {}}
    return {"settings": settings} | ({"facts": places} if places else {})


def table_brief(subject: Subject) -> dict[str, Any]:
    """Return every setting that is no plain default, and how each came about."""
    from tools.settings.view import settings_view

    brief = _Brief(subject, Quoting(subject.tree))
    every = settings_view(subject)
    shown = [
        name
        for name, one in every.items()
        if one["class"] not in ("default", "unknown") or one.get("disagrees") or one.get("contradicted")
    ]
    return {
        "settings": {name: brief.told(name, every[name]) for name in shown},
        "unknown": [name for name, one in every.items() if not one["known"]],
        "others": f"{len(every) - len(shown)} settings are not listed",
    }


@dataclass(slots=True)
class _Brief:
    subject: Subject
    quoting: Quoting
    facts: dict[str, dict[str, str] | None] = field(default_factory=dict)
    """By name: the line that gives a value; None where no line does, empty where it needs none."""

    def setting(self, name: str, written: Found, read: Sequence[Reader]) -> dict[str, Any]:
        """Return what one setting is, why, what else might set it, and who reads it."""
        whole = setting_view(self.subject, name, whole=False)
        explain(whole, [overwrite_view(*pair) for pair in written], self.subject.evidence.log)
        view = self.told(name, whole)
        definition = self.subject.definitions.get(name)
        if definition is not None and definition.cite.line:
            view["default"] = self._placed(*self.quoting.statement(definition.cite))
        view |= {"assigned": self._groups(written)} if written else {"assigned": "nowhere"}
        pairs = [one for one, _ in written if one.pair is not None and one.pair.role == "temporary"]
        if pairs:
            view["set_for_a_while"] = [f"{one.cite.path}:{one.line}" for one in pairs]
        return view | self._readers([one for one in read if one.serving] or read)

    def told(self, name: str, whole: Mapping[str, Any]) -> dict[str, Any]:
        """Return value, class and origin of a setting from the whole of what is known of it."""
        row = self.subject.row(name)
        view: dict[str, Any] = {"value": whole["value"]} if whole["known"] else {"unknown": True}
        view["class"] = whole["class"]
        if (source := whole.get("source_of_value", "source")) != "source":
            view["told_by"] = source
        if row.asked:
            view["asked"] = [_asked(one) for one in whole["requested"]]
        given = self._given_by(row, whole)
        view |= {"given_by": given} if given else {}
        for key in ("log", "disagrees", "contradicted", "alternatives", "needs"):
            if whole.get(key):
                view[key] = whole[key]
        if whole.get("observed"):
            view["observed"] = [one["text"] for one in whole["observed"]]
        perhaps = [cite.partition("@")[0] for cite in whole.get("perhaps_by", ())]
        return view | ({"perhaps_by": perhaps} if perhaps else {})

    def _given_by(self, row: Difference, whole: Mapping[str, Any]) -> dict[str, str]:
        if row.step is not None and row.step.origin == "overwrite" and row.step.cite is not None:
            return self._placed(*self.quoting.statement(row.step.cite))
        cite = str(whole.get("given_by") or "").partition("@")[0]
        return {"at": cite} if cite else {}

    def _groups(self, written: Found) -> list[dict[str, Any]]:
        """Return the assignments; those of one file, text and fate together, for the line alone differs."""
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for result in _ORDER:
            for one, outcome in written:
                if outcome.result == result and one.pair is None:
                    place, text = self.quoting.statement(one.cite)
                    row = {"at": place} | self._why(one, outcome)
                    groups.setdefault((result, one.cite.path, text), []).append(row)
        return [{"result": result, "text": text, "rows": rows} for (result, _, text), rows in groups.items()]

    def _why(self, one: Overwrite, outcome: Outcome) -> dict[str, Any]:
        view: dict[str, Any] = {}
        if outcome.result == "cannot fire":
            false = [c for c in outcome.conditions if c.verdict == "false" and c.cite == outcome.cite]
            view |= self._guard(one, false[0]) if false else {"because": outcome.because}
        elif outcome.result == "fires":
            view["guards"] = [self._guard(one, condition) for condition in outcome.conditions]
        else:
            unknown = [c for c in outcome.conditions if c.verdict == "unknown"]
            view["guards"] = [{**self._guard(one, c), "verdict": "unknown"} for c in unknown[:3]]
            view["needs"] = list(outcome.needs[:4])
        return view | ({"logged": one.logged} if one.logged and outcome.result != "cannot fire" else {})

    def _guard(self, one: Overwrite, condition: Condition) -> dict[str, Any]:
        place, text = self.quoting.header(condition.cite)
        view: dict[str, Any] = {"guard_at": place, "guard": text}
        since = {name: self._value(name, value) for name, value in condition.facts if _is_plain(value)}
        if since:
            view["since"] = since
        elif condition.verdict != "unknown":
            view["because"] = condition.because or "worked out from the source and the host"
        first, last = one.body
        if condition.cite.path != one.cite.path or not first <= condition.cite.line <= last:
            view["of"] = "a caller"
        return view

    def _value(self, name: str, value: Any) -> Any:
        """Return a value that decides something, and see to it that a line is known that gives it."""
        shown = HIDDEN if is_secret(name) else plain(value)
        whole = len(repr(shown)) <= _SHORT
        if name not in self.facts:
            self.facts[name] = self._place(name, value) if whole and not is_secret(name) else None
        return shown if whole else f"{repr(shown)[:_SHORT]} [cut]"

    def _place(self, name: str, value: Any) -> dict[str, str] | None:
        subject = self.subject
        if name not in subject.evaluation.settings and name not in subject.definitions.fields():
            return None
        row = subject.row(name)
        asked = any(one.in_force and one.word.startswith("-") for one in row.asked)
        told = row.source == "/server_info"
        if (asked or told) and row.known and same(row.value, value):
            return {}
        definition = subject.definitions.get(name)
        if definition is None or not (definition.default_known and same(definition.default, value)):
            return None
        place, text = self.quoting.statement(definition.cite)
        return {"at": place, "text": text} if text else None

    def _readers(self, read: Sequence[Reader]) -> dict[str, Any]:
        """Return the lines that read a setting, what decides most first, equal ones together."""
        lines: dict[str, dict[str, Any]] = {}
        left = 0
        for one in _copies_first(read):
            place, text = self.quoting.line(one.cite)
            if text not in lines and len(lines) == MOST_READERS:
                left += 1
                continue
            then = " ".join(one.decides.split())[:_SHORT]
            line = lines.setdefault(text, {"text": text, "at": []} | ({"then": then} if then else {}))
            if len(line["at"]) < _MOST_PLACES and place not in line["at"]:
                line["at"].append(place)
            elif place not in line["at"]:
                left += 1
        return {"readers": list(lines.values())} | ({"more_readers": left} if left else {})

    @staticmethod
    def _placed(place: str, text: str) -> dict[str, str]:
        return {"at": place, "text": text}


def _copies_first(read: Sequence[Reader]) -> Iterator[Reader]:
    """Yield the readers with the line that copies a setting before those that read the copy."""
    seen: set[Reader] = set()
    for one in read:
        made = [
            copy
            for copy in read
            if one.through and copy.through is None and copy.text.startswith(f"{one.through} = ")
        ]
        for reader in (*made, one):
            if reader not in seen:
                seen.add(reader)
                yield reader


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | tuple | Mapping)


def _asked(one: Mapping[str, Any]) -> dict[str, Any]:
    word = one["word"] if one["value"] is None else f"{one['word']} {one['value']}"
    view: dict[str, Any] = {"word": word, "where": one["where"]}
    return view | {key: one[key] for key in ("remark", "in_force") if key in one}


def cited_places(view: object) -> Iterable[str]:
    """Yield every place of a brief, as ``PATH:LINE``."""
    if isinstance(view, Mapping):
        for key, part in view.items():
            if key in _PLACES:
                yield from [part] if isinstance(part, str) else part
            else:
                yield from cited_places(part)
    elif isinstance(view, list):
        for part in view:
            yield from cited_places(part)


def with_handles(view: Any, handles: Mapping[str, str]) -> Any:
    """Return a brief with the handle of the kept file in every place; a file that is not kept stays named."""
    if isinstance(view, Mapping):
        made: dict[str, Any] = {}
        for key, part in view.items():
            if key not in _PLACES:
                made[key] = with_handles(part, handles)
            elif isinstance(part, str):
                made[key] = _handle(part, handles)
            else:
                made[key] = [_handle(place, handles) for place in part]
        return made
    return [with_handles(part, handles) for part in view] if isinstance(view, list) else view


_PLACES: Final = ("at", "guard_at", "set_for_a_while", "perhaps_by")


def _handle(place: str, handles: Mapping[str, str]) -> str:
    path, _, lines = place.rpartition(":")
    return f"{handles[path]}:{lines}" if path in handles else place
