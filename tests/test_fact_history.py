"""What hosts were like: only changes are stored, damage is told, and nothing of it is readable by others."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tools import history_store
from tools.facts_flat import flatten, text_of, unit_files
from tools.history_diff import changes, differences, folded_gone, gone_subjects
from tools.history_store import HistoryStore, Past, read

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FACTS = {"kernel": "Linux 6.1", "web.service engine": "sglang", "web.service flag pp_size": "8"}


def plain(data: bytes) -> bytes:
    """Redact nothing."""
    return data


def file_of(store: HistoryStore) -> Path:
    """Return the only file of a store."""
    (path,) = store.folder.glob("*.jsonl")
    return path


def test_only_changes_are_stored(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    sizes = []
    for minutes in range(0, 1000, 10):
        store.record("gpu1", "SHA256:a", FACTS, T0 + timedelta(minutes=minutes))
        sizes.append(file_of(store).stat().st_size)
    assert sizes[1] == sizes[-1] < sizes[0] + 60, "a look that finds nothing new adds nothing"
    store.record("gpu1", "SHA256:a", FACTS | {"web.service flag pp_size": "4"}, T0 + timedelta(days=1))
    first, second = store.past("gpu1", "SHA256:a").states
    assert (first.first, first.last) == (T0, T0 + timedelta(minutes=990))
    assert second.facts["web.service flag pp_size"] == "4"
    assert second.facts["kernel"] == "Linux 6.1"


def test_it_is_private_and_redacted(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", lambda data: data.replace(b"hunter2", b"<masked>"))
    store.record("gpu1", None, {"web.service flag api_key": "hunter2"}, T0)
    path = file_of(store)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert b"hunter2" not in path.read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        b"{not json\n",
        b'{"set": 3}\n',
        b"\xff\xfe\n",
        b'{"at": "x", "set": {}}\n',
        b'{"at": "0001-01-01T00:00:00+14:00", "host": "gpu1", "full": {}}\n',
    ],
)
def test_a_damaged_line_is_told_and_the_next_look_counts(tmp_path: Path, damage: bytes) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    store.record("gpu1", "k", FACTS, T0)
    path = file_of(store)
    path.write_bytes(path.read_bytes() + damage)
    past = store.past("gpu1", "k")
    assert [state.facts for state in past.states] == [FACTS]
    assert f"{path}:2" in past.problems[0]
    store.record("gpu1", "k", FACTS | {"kernel": "Linux 6.2"}, T0 + timedelta(hours=1))
    assert [state.facts["kernel"] for state in store.past("gpu1", "k").states] == ["Linux 6.1", "Linux 6.2"]


def test_a_line_that_was_cut_off_is_damage_too(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    store.record("gpu1", "k", FACTS, T0)
    store.record("gpu1", "k", FACTS | {"kernel": "Linux 6.2"}, T0 + timedelta(hours=1))
    path = file_of(store)
    path.write_bytes(path.read_bytes()[:-20])
    assert len(store.past("gpu1", "k").problems) == 1
    store.record("gpu1", "k", FACTS | {"kernel": "Linux 6.3"}, T0 + timedelta(hours=2))
    past = store.past("gpu1", "k")
    assert [state.facts["kernel"] for state in past.states] == ["Linux 6.1", "Linux 6.3"]
    assert past.whole


def test_what_a_look_did_not_ask_for_stays(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    store.record("gpu1", "k", FACTS | {"web.service health": "ok"}, T0)
    store.record("gpu1", "k", FACTS, T0 + timedelta(hours=1))
    (state,) = store.past("gpu1", "k").states
    assert state.facts["web.service health"] == "ok"
    assert not changes({"web.service health": "ok", **FACTS}, FACTS)


def test_a_start_told_a_second_later_is_the_same_start(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    for second in (10, 11, 12):
        store.record("gpu1", "k", {"web.service since": f"2026-03-01T08:00:{second}+00:00"}, T0)
    assert len(store.past("gpu1", "k").states) == 1
    store.record("gpu1", "k", {"web.service since": "2026-03-01T09:00:12+00:00"}, T0)
    assert len(store.past("gpu1", "k").states) == 2


def test_a_host_is_known_by_its_key_and_found_by_its_name_while_it_is_down(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    store.record("gpu1", "SHA256:old", {"kernel": "old"}, T0)
    store.record("gpu1", "SHA256:new", {"kernel": "new"}, T0 + timedelta(days=1))
    assert store.past("gpu1", "SHA256:old").states[-1].facts == {"kernel": "old"}
    assert store.past("gpu1", None).states[-1].facts == {"kernel": "new"}
    assert store.past("gpu9", None) == Past()


def test_what_is_old_is_thinned_out_and_the_newest_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_store, "COMPACT_AT", 40_000)
    store = HistoryStore(tmp_path / "history", plain)
    flapping = [FACTS | {"web.service active": text, "pad": "x" * 400} for text in ("active", "failed")]
    largest = 0
    for number in range(1200):
        store.record("gpu1", "k", flapping[number % 2], T0 + timedelta(hours=number))
        largest = max(largest, file_of(store).stat().st_size)
    past = store.past("gpu1", "k")
    assert largest < 41_000
    assert not past.problems
    assert past.states[-1].first == T0 + timedelta(hours=1199)
    assert past.states[0].first > T0
    assert past.states[0].facts["kernel"] == "Linux 6.1"
    recent = [state for state in past.states if state.first > T0 + timedelta(hours=1150)]
    assert len(recent) == 49, "what is new is kept whole"


def test_files_of_hosts_not_seen_for_long_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_store, "MOST_HOSTS", 3)
    store = HistoryStore(tmp_path / "history", plain)
    for number in range(5):
        store.record(f"gpu{number}", f"k{number}", FACTS, T0)
    assert len(list(store.folder.glob("*.jsonl"))) == 3
    assert store.past("gpu4", "k4").states


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").mkdir()
    assert "cannot be read" in read(tmp_path / "x.jsonl").problems[0]


def test_facts_become_lines_without_what_differs_at_every_look() -> None:
    view = {
        "os": {"kernel": "Linux 6.1", "uptime_s": 99, "load": [1.0]},
        "hardware": {
            "gpus": [{"index": 0, "name": "H200", "memory_mib": 1, "power_w": 7, "power_limit_w": 600.0}]
        },
        "services": [
            {"unit": "a.service", "active": "active", "fragment": "/etc/a", "dropins": ["/etc/d.conf"]}
        ],
        "engines": [{"unit": "a.service", "engine": "sglang", "flags": {"x": True}, "pid": 5, "port": 1}],
    }
    files = unit_files({"a.service": "# /etc/a\n[Unit]\n# /etc/d.conf\n[Service]\nNice=1\n"})
    flat = flatten(view, files)
    assert flat["gpu 0"] == "H200, 1 MiB, limit 600 W"
    assert flat["a.service flag x"] == "true"
    assert flat["a.service dropin /etc/d.conf"].startswith("sha256:")
    assert not {"uptime_s", "load"} & set(" ".join(flat).split())
    assert "5" not in flat.values()
    assert len(text_of("y" * 5000)) < 330


def test_changes_put_what_a_person_sets_first_and_fold_a_server_that_is_gone() -> None:
    before = FACTS | {"web.service restarts": "0"}
    after = {"kernel": "Linux 6.2", "web.service restarts": "1"}
    gone = gone_subjects(before, after)
    assert gone == ["web.service"]
    names = [one.name for one in folded_gone(changes(before, after), gone)]
    assert names == ["kernel", "web.service restarts"]


def test_hosts_with_the_same_value_are_told_together() -> None:
    hosts = {
        name: {f"{name}.service flag pp_size": "8", f"{name}.service version": version}
        for name, version in (("gpu1", "0.5.11"), ("gpu2", "0.5.11"), ("gpu3", "0.5.20"))
    }
    (only,) = differences(hosts)
    assert only.says() == "version: 0.5.11 on gpu1, gpu2; 0.5.20 on gpu3"


def test_options_are_compared_where_they_can_stand() -> None:
    one = {
        "a.service engine": "sglang",
        "a.service flag pp_size": "8",
        "a.service effective x": "1",
        "gpu 0": "H200",
    }
    two = {"b.service engine": "sglang", "gpu 0": "H200", "gpu 1": "H200"}
    other = {"c.service engine": "vllm", "gpu 0": "H200"}
    found = {found.name: found.says() for found in differences({"gpu1": one, "gpu2": two, "gpu3": other})}
    assert set(found) == {"engine", "flag pp_size", "gpus"}
    assert found["flag pp_size"] == "flag pp_size: 8 on gpu1; not set on gpu2"
    assert found["gpus"] == "gpus: 1 x H200 on gpu1, gpu3; 2 x H200 on gpu2"


def test_lines_are_json_that_another_program_can_read(tmp_path: Path) -> None:
    store = HistoryStore(tmp_path / "history", plain)
    store.record("gpu1", "k", FACTS, T0)
    (line,) = file_of(store).read_text().splitlines()
    assert json.loads(line)["full"] == FACTS
