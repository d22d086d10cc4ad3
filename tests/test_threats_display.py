"""What is shown of a command or a plan is what runs; what cannot be shown is refused before anything runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.config import Settings
from tools.artifacts import ArtifactStore
from tools.contract import Capture, Result, ToolContext, ToolError
from tools.display import printable
from tools.policy import judge
from tools.redact import redact
from tools.run import BOUNDED, Args, run
from tools.service_plan import check_shown
from tools.service_request import check
from tools.service_types import ChangeRequest

UNSEEN = {
    "bidi override": "\u202e",
    "bidi isolate": "\u2066",
    "bidi end": "\u202c",
    "right-to-left mark": "\u200f",
    "Arabic letter mark": "\u061c",
    "zero-width blank": "\u200b",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "no-break blank": "\u00a0",
    "wide blank": "\u3000",
    "line separator": "\u2028",
    "Hangul filler": "\u3164",
    "variation selector": "\ufe0f",
    "tag letter": "\U000e0041",
    "look-alike letter": "\u0430",
    "full-width letter": "\uff41",
    "colour": "\x1b[31m",
    "clear screen": "\x1b[2J",
    "cursor up": "\x1b[1A",
    "title": "\x1b]0;x\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\",
    "C1 control": "\x9b2J",
    "carriage return": "\r",
    "line break": "\n",
    "form feed": "\x0c",
    "vertical tab": "\x0b",
    "backspace": "\b",
    "delete": "\x7f",
    "NUL": "\0",
    "tab": "\t",
    "ten thousand tabs": "\t" * 10_000,
}
PLACES = (
    "{0}ls -l /opt",
    "ls{0} -l /opt",
    "ls {0}-l /opt",
    "ls -l{0} /opt",
    "ls -l /o{0}pt",
    "ls -l '/o{0}pt'",
    'ls -l "/o{0}pt"',
    "ls -l /opt | grep 'a{0}b'",
    "ls -l /opt{0} | head",
)


class Recorder:
    """Be a host that runs nothing and writes down what it was given."""

    name: str = "here"
    key_fingerprint: str | None = None

    def __init__(self) -> None:
        self.given: list[tuple[str, ...]] = []

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 30.0,
        max_bytes: int = 4 << 20,
        stdin: bytes | None = None,
        retry: bool = False,
    ) -> Result:
        """Answer like a host on which every path is a plain one."""
        self.given.append(tuple(argv))
        looked_at = argv[4:] if len(argv) > 2 and "readlink" in argv[2] else ()
        out = Capture("".join(f"{path}\n\n" for path in looked_at).encode(), b"", 0)
        out = Capture(out.head, b"", len(out.head))
        return Result("here", tuple(argv), "exited", 0, None, out, Capture(), False, datetime.now(UTC), 0.0)

    async def forward(self, port: int) -> int:
        """Forward nothing."""
        raise NotImplementedError

    async def close(self) -> None:
        """Hold nothing."""


def context(host: Recorder, tmp_path: Path) -> ToolContext:
    return ToolContext("t1", {"here": host}, ArtifactStore(tmp_path / "s"), redact, Settings().tools)


@pytest.mark.threat(7)
async def test_a_command_with_something_unseen_is_refused(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    host = Recorder()
    ctx = context(host, tmp_path)
    cases = 0
    for name, trick in UNSEEN.items():
        for place in PLACES:
            cases += 1
            command = place.format(trick)
            decision = judge(command)
            assert decision.verdict != "allow", (name, place)
            assert decision.argv == ()
            if len(command) <= 4000:
                with pytest.raises(ToolError) as raised:
                    await run(ctx, Args(command=command))
                assert printable(str(raised.value)) == str(raised.value), (name, place)
    record_property("cases", cases)
    assert host.given == []


@pytest.mark.threat(7)
async def test_what_is_shown_of_a_command_is_what_runs(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The command in the view, read back, is the argument list that the host was given."""
    host = Recorder()
    ctx = context(host, tmp_path)
    corpus = (Path(__file__).parent / "data" / "policy_allow.txt").read_text().splitlines()
    wide = [line.replace(" ", " " * 300) for line in corpus if "'" not in line and line.count(" ") < 10]
    cases = 0
    for command in (*corpus, *wide[:100]):
        if command.startswith("#") or judge(command).verdict != "allow":
            continue
        cases += 1
        view = await run(ctx, Args(command=command))
        given = host.given[-1]
        if given[: len(BOUNDED)] == BOUNDED:
            given = given[len(BOUNDED) :]
        if given[:2] == ("sh", "-c"):
            assert given[2] == view["command"]
        else:
            assert list(given) == shlex.split(view["command"])
        assert view["command"].isascii() and view["command"].isprintable()
        assert "   " not in view["command"] or "   " in "".join(shlex.split(view["command"]))
    record_property("cases", cases)
    assert cases > 600


@pytest.mark.threat(7)
def test_a_plan_with_something_unseen_is_refused(record_property: Callable[[str, object], None]) -> None:
    cases = 0
    shown = {name: trick for name, trick in UNSEEN.items() if "look-alike" not in name}
    for name, trick in shown.items():
        for field in ("unit", "setting", "to_value", "from_value"):
            fields = {
                "unit": "sglang.service",
                "setting": "--attention-backend",
                "from_value": "a",
                "to_value": "b",
            }
            fields[field] = fields[field][:1] + trick + fields[field][1:]
            if field.endswith("_value") and printable(trick) == trick and not set(trick) & {"\n", "\t"}:
                continue  # a letter of another script, or a blank of another width: shown as it is
            cases += 1
            with pytest.raises(ToolError) as raised:
                check(ChangeRequest.model_validate(fields))
            assert printable(str(raised.value)) == str(raised.value), (name, field)
    for trick in shown.values():
        if printable(trick) != trick:
            cases += 1
            with pytest.raises(ToolError, match="cannot be shown"):
                check_shown(["sglang"], ["sglang", "--x"], f"[Service]\nExecStart=sglang --x{trick}\n")
    record_property("cases", cases)
    assert cases > 100


@pytest.mark.threat(7)
def test_json_of_a_command_says_it_without_a_control(record_property: Callable[[str, object], None]) -> None:
    """What `leadline policy check` prints of a hostile line is ASCII and means the same."""
    from agent.surfaces.policy_command import rows
    from tools.policy_load import shipped

    lines = [place.format(trick) for trick in UNSEEN.values() if "\n" not in trick for place in PLACES]
    said = list(rows([f"{line}\n".encode() for line in lines], shipped(), free_form=True))
    record_property("cases", len(said))
    assert len(said) == len(lines)
    for line, row in zip(lines, said, strict=True):
        text = json.dumps(row)
        assert text.isascii() and text.isprintable()
        assert json.loads(text)["command"] == line.removesuffix("\r")
        assert row["verdict"] != "allow"
