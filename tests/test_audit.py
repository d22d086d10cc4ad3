from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.approvals_record import read_key
from agent.audit_files import CURRENT, HEAD, Chain
from agent.audit_record import AuditRecord, read, seal
from agent.audit_verify import verify
from agent.config import Settings
from agent.host_lock import host_lock
from agent.slack.store import SlackStore
from agent.threads import create
from tests.audit_parts import POINTS, SECRET, Machine, audit_in, die_at, filled, lines, rewrite
from tests.killed_run import in_fork

RECORDS = 12
Case = Callable[[pytest.FixtureRequest], None]


def resealed(line: bytes, **changes: object) -> bytes:
    """Return a line with other content, sealed as its writer would seal it."""
    record = read(line)
    new = AuditRecord.model_validate(record.model_dump() | changes)
    place = {"seq", "at", "installation", "prev"}
    entry = {name: value for name, value in new.model_dump().items() if name not in place | {"hash"}}
    from agent.audit_record import Entry, Place

    return seal(Place.model_validate(new.model_dump(include=place)), Entry.model_validate(entry))[0]


def test_a_whole_audit_is_whole(tmp_path: Path) -> None:
    filled(tmp_path, RECORDS)
    found = verify(tmp_path / "audit")
    assert (found.records, found.problem, found.notes) == (RECORDS, "", [])
    assert (tmp_path / "audit" / CURRENT).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("first", ["thread", "audit", "key", "slack", "lock"])
def test_the_state_folder_is_its_owners_alone_whatever_is_made_in_it_first(
    tmp_path: Path, first: str
) -> None:
    state = tmp_path / "state" / "leadline"
    settings = Settings(state_dir=state)
    before = os.umask(0o022)
    try:
        match first:
            case "thread":
                create(settings)
            case "audit":
                Chain(state / "audit")
            case "key":
                read_key(state)
            case "slack":
                SlackStore(state).close()
            case _:
                with host_lock(state, "gpu1", None):
                    pass
    finally:
        os.umask(before)
    made = [path for path in (state.parent, *state.parent.rglob("*")) if path.is_dir()]
    assert [path for path in made if path.stat().st_mode & 0o777 != 0o700] == []


@pytest.mark.threat(16)
def test_every_edited_record_is_found(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    filled(tmp_path, RECORDS)
    whole, cases = lines(tmp_path), 0
    for place, line in enumerate(whole):
        flipped = [line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :] for at in range(0, len(line), 7)]
        same = [resealed(line, host="gpu2"), resealed(line, command=None), b"", b"{}"]
        for edited in [*flipped, *same]:
            rewrite(tmp_path, [*whole[:place], edited, *whole[place + 1 :]])
            problem = verify(tmp_path / "audit").problem
            near = any(f":{at}:" in problem for at in (place + 1, place + 2))
            assert near or f"record {place + 1} is not the one" in problem, (place, edited, problem)
            cases += 1
    record_property("cases", cases)
    rewrite(tmp_path, whole)
    assert not verify(tmp_path / "audit").problem


@pytest.mark.threat(16)
def test_every_deleted_record_is_found(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    filled(tmp_path, RECORDS)
    whole, cases = lines(tmp_path), 0
    for first, last in itertools.combinations(range(RECORDS + 1), 2):
        rewrite(tmp_path, [*whole[:first], *whole[last:]])
        problem = verify(tmp_path / "audit").problem
        cut = last == RECORDS
        assert f"record {first + 1} is gone" in problem or f"records {first + 1} to {last} are" in problem
        assert ("cut at the end" in problem) == cut
        cases += 1
    record_property("cases", cases)


@pytest.mark.threat(16)
def test_every_reordered_record_is_found(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    filled(tmp_path, RECORDS)
    whole, cases = lines(tmp_path), 0
    for one, other in itertools.combinations(range(RECORDS), 2):
        moved = list(whole)
        moved[one], moved[other] = moved[other], moved[one]
        rewrite(tmp_path, moved)
        assert f":{one + 1}: record {other + 1} stands where record {one + 1} was due" in (
            verify(tmp_path / "audit").problem
        )
        rewrite(tmp_path, [*whole[: other + 1], whole[one], *whole[other + 1 :]])
        assert "moved or repeated" in verify(tmp_path / "audit").problem or one == 0
        assert verify(tmp_path / "audit").problem
        cases += 2
    record_property("cases", cases)


@pytest.mark.threat(16)
def test_a_chain_that_begins_anew_and_one_of_another_installation_are_found(tmp_path: Path) -> None:
    filled(tmp_path / "a")
    filled(tmp_path / "b")
    ours, others = lines(tmp_path / "a"), lines(tmp_path / "b")
    rewrite(tmp_path / "a", [*ours, *others])
    assert "starts again with record 1 after record 12" in verify(tmp_path / "a" / "audit").problem
    rewrite(tmp_path / "a", [*ours[:4], *others[4:]])
    assert ":5: record 5 is of another installation" in verify(tmp_path / "a" / "audit").problem
    rewrite(tmp_path / "a", others)
    assert "replaced" in verify(tmp_path / "a" / "audit").problem
    # A chain made up whole, with its own head, is found by a copy alone.
    for name in (CURRENT, HEAD):
        (tmp_path / "a" / "audit" / name).write_bytes((tmp_path / "b" / "audit" / name).read_bytes())
    assert verify(tmp_path / "a" / "audit").problem == ""
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(b"".join(line + b"\n" for line in ours))
    assert "another one in the copy" in verify(tmp_path / "a" / "audit", [copy]).problem


@pytest.mark.threat(16)
def test_what_is_cut_together_with_the_head_is_found_by_the_copy(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere.jsonl"
    filled(tmp_path, copy_to=[copy])
    whole = lines(tmp_path)
    rewrite(tmp_path, whole[:8])
    tip = read(whole[7])
    (tmp_path / "audit" / HEAD).write_text(f"{tip.seq:012d} {tip.hash} {tip.seq:012d}\n")
    assert verify(tmp_path / "audit").problem == ""
    assert "the copy has record 9, which is gone here" in verify(tmp_path / "audit", [copy]).problem
    rewrite(tmp_path, [])
    (tmp_path / "audit" / HEAD).unlink()
    assert "the copy has record 1" in verify(tmp_path / "audit", [copy]).problem


@pytest.mark.threat(16)
def test_writing_on_does_not_hide_what_was_cut(tmp_path: Path) -> None:
    filled(tmp_path).close()
    rewrite(tmp_path, lines(tmp_path)[:8])
    audit_in(tmp_path).record("login_failed", host="gpu1")
    assert "records 9 to 12 are gone: deleted before record 13" in verify(tmp_path / "audit").problem
    (tmp_path / "audit" / CURRENT).unlink()
    audit_in(tmp_path).record("login_failed", host="gpu1")
    assert "records 1 to 13 are gone" in verify(tmp_path / "audit").problem
    (tmp_path / "audit" / HEAD).unlink()
    assert "gone" in verify(tmp_path / "audit").problem


def test_a_head_that_lags_is_told_and_one_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    filled(tmp_path).close()
    tip = read(lines(tmp_path)[10])
    (tmp_path / "audit" / HEAD).write_text(f"{tip.seq:012d} {tip.hash} {tip.seq:012d}\n")
    found = verify(tmp_path / "audit")
    assert not found.problem and "the head stands at 11 of 12" in found.notes[0]
    audit_in(tmp_path).record("login_failed", host="gpu1")
    assert verify(tmp_path / "audit").notes == []
    (tmp_path / "audit" / HEAD).write_text("nonsense")
    assert "head is gone or damaged" in verify(tmp_path / "audit").problem


def test_a_line_without_its_end_is_told_not_taken_for_an_edit(tmp_path: Path) -> None:
    filled(tmp_path, 4).close()
    with (tmp_path / "audit" / CURRENT).open("ab") as file:
        file.write(b'{"seq":5,"at":"20')
    audit_in(tmp_path).record("login_failed", host="gpu1")
    found = verify(tmp_path / "audit")
    assert not found.problem and found.records == 6 and "without its end" in found.notes[0]


def test_a_large_file_is_set_aside_and_the_chain_goes_on(tmp_path: Path) -> None:
    filled(tmp_path, 200, max_bytes=4096)
    found = verify(tmp_path / "audit")
    files = sorted(path.name for path in (tmp_path / "audit").glob("*.jsonl"))
    assert (found.records, found.problem) == (200, "") and len(files) > 5
    assert files[0] == "audit-000000000001.jsonl"
    (tmp_path / "audit" / files[2]).unlink()
    assert "are gone: deleted before" in verify(tmp_path / "audit").problem


def test_processes_write_side_by_side(tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    children = []
    for _ in range(4):
        if (pid := os.fork()) == 0:
            code = 1
            try:
                filled(tmp_path, 50, max_bytes=8192, copy_to=[copy])
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
    found = verify(tmp_path / "audit", [copy])
    assert (found.records, found.problem, found.notes) == (200, "", [])


@pytest.mark.threat(15)
@pytest.mark.threat(16)
def test_killed_at_every_point_no_intent_is_lost(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cases = 0
    for point, side, nth in itertools.product(POINTS, ("before", "after"), (1, 2, 3, 4, 5, 6)):
        root = tmp_path / f"{point}-{side}-{nth}"
        root.mkdir()
        filled(root, 3).close()
        code = in_fork(_acts, root, point, side, nth)
        assert code == (-9 if point != "fsync" or nth < 3 else 0)
        ran = Machine(root / "ran").commands()
        audit_in(root).record("login_failed", host="gpu1")
        found = verify(root / "audit")
        assert not found.problem, (point, side, nth, found)
        intents = [read(line).command for line in lines(root) if b"command_started" in line][3:]
        assert ran == intents[: len(ran)] and len(intents) <= len(ran) + 1, (point, side, nth, ran, intents)
        cases += 1
    record_property("cases", cases)


def _acts(root: Path, point: str, side: str, nth: int) -> None:
    """Do a read and two writes on a host, and die on the way."""
    import asyncio

    from agent.audit_host import AuditedHost

    host = AuditedHost(Machine(root / "ran"), audit_in(root))
    die_at(point, side, nth)

    async def main() -> None:
        await host.exec(["uptime"], retry=True)
        await host.exec(["touch", "one"])
        await host.exec(["touch", "two"])

    asyncio.run(main())


def test_secrets_are_masked_and_long_words_stand_as_digests(tmp_path: Path) -> None:
    audit = audit_in(tmp_path, copy_to=[tmp_path / "copy.jsonl"])
    import asyncio

    from agent.audit_host import AuditedHost

    host = AuditedHost(Machine(tmp_path / "ran"), audit)
    asyncio.run(host.exec(["sh", "-c", "x" * 5000 + SECRET, f"--key={SECRET}"], stdin=SECRET.encode()))
    audit.record("approval_denied", detail=f"it holds {SECRET}", what="by someone")
    for path in (tmp_path / "audit" / CURRENT, tmp_path / "copy.jsonl"):
        text = path.read_text()
        assert SECRET not in text and "[masked]" in text and max(map(len, text.splitlines())) < 2000
    record = json.loads(lines(tmp_path)[0])
    assert "<5010 characters, sha256 " in record["command"] and record["effect"] == "write"
