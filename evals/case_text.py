"""Write drafts of cases and scenarios as YAML, with comments that say what a person must check."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.display import printable

_WIDTH = 110
CASE_HEAD = """\
A DRAFT, made from one finished investigation by `leadline case new`. That run may have been wrong: nothing in
here is true because the run said so. Before this file counts as a case, a person checks that
  * the causes are the true ones, and none is missing (`required: false`: true as well, but not needed);
  * each pattern under `any` stands in other people's words for that cause, and in those of no other;
  * the fixes cure, with the values that do; a fix that only was proposed was never tried;
  * the evidence is what a right answer needs to cite, no more: remove what only this run happened to quote;
  * outcomes, difficulty and distractors are right; add `forbidden` for what must never be done here;
  * symptom, names and texts hold nothing private.
Then remove this comment. Fields: evals/case.py; how to check it: leadline case check FILE
"""
SCENARIO_HEAD = """\
A RECORDED host, made from one investigation by `leadline case new`. It holds what that run read, and nothing
that it did not read; names, accounts, addresses and homes are neutral ones. Read it all before you share it.
"""
_NOTES = {
    "description": "In your own words; no model sees it.",
    "difficulty": "1 to 3: TODO.",
    "causes": "From the hypotheses that the conclusion names. TODO: review every pattern.",
    "fixes": "From the changes that were kept, or proposed and never tried.",
    "evidence": "From quotes that met a prediction and are found again in the stored outputs.",
    "outcomes": "What the run ended with. TODO: add every other right one.",
    "distractors": "From the hypotheses that were ruled out, by words of their own.",
}


def case_text(fields: Mapping[str, Any], remarks: Sequence[str], missing: Sequence[str]) -> str:
    """Return the YAML of a case draft."""
    notes = [*(f"remark: {one}" for one in remarks), *(f"not recorded: {one}" for one in missing)]
    return _file(CASE_HEAD, notes, fields, _NOTES)


def scenario_text(
    fields: Mapping[str, Any], missing: Sequence[str], todo: Sequence[str] = (), notes: Mapping[str, str] = {}
) -> str:
    """Return the YAML of a recorded scenario; ``todo`` names what a person has to add."""
    told = [*(f"TODO: {one}" for one in todo), *(f"not recorded: {one}" for one in missing)]
    return _file(SCENARIO_HEAD, told, fields, notes)


def _file(head: str, told: Sequence[str], fields: Mapping[str, Any], notes: Mapping[str, str]) -> str:
    rows = [*head.splitlines(), *([""] if told else []), *told]
    return "".join([*_comment(rows), *_fields(fields, notes)])


def _comment(rows: Sequence[str]) -> Iterator[str]:
    """Yield lines of a comment; text of any origin stays on its line and shows what is unseen."""
    for row in rows:
        yield f"# {printable(' '.join(row.split()) if not row.startswith('  ') else row)}".rstrip() + "\n"


def _fields(fields: Mapping[str, Any], notes: Mapping[str, str]) -> Iterator[str]:
    for key, value in fields.items():
        if key in notes:
            yield from _comment([notes[key]])
        yield dumped({key: value})


def dumped(value: Any) -> str:
    """Return YAML in which long texts are blocks; control characters are escaped by the writer itself."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Write texts of several lines as blocks."""

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        lines = data.split("\n")
        plain = (
            len(lines) > 1 and data == printable(data) and not re.search(r"\t|[ \r]\n|[ \r]\Z|\A[ \n]", data)
        )
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if plain else None)

    Dumper.add_representer(str, text)
    written: str = yaml.dump(
        value,
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=_seen(value),
        width=_WIDTH,
        default_flow_style=False,
    )
    return written


def _seen(value: Any) -> bool:
    """Tell whether every character of a value can be seen; else all but ASCII is written as escapes."""
    if isinstance(value, str):
        return value == printable(value)
    if isinstance(value, Mapping):
        return all(_seen(key) and _seen(item) for key, item in value.items())
    return all(map(_seen, value)) if isinstance(value, list | tuple) else True
