"""What slash commands answer before anything was investigated, and what is settled for the session then."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.surfaces import slash
from agent.surfaces.side_by_side import Down, Opened
from agent.surfaces.slash_types import Desk, ModelTaken, ModeTaken
from tests.scripted_parts import LocalHost, make_settings

ANSWERED = ("/hosts", "/log", "/cost", "/context", "/model", "/mode", "/resume", "/new")


def desk(root: Path, **more: object) -> Desk:
    hosts = Opened()
    hosts["here"] = LocalHost()
    hosts.down.append(Down("there", "no route to host", "start it"))
    return Desk(make_settings(root, **more), hosts=hosts, mode="propose")


def text(at: Desk, line: str) -> str:
    return slash.answer(at, line).text


@pytest.mark.parametrize("name", [name for name in slash.COMMANDS if name not in ANSWERED])
def test_what_needs_a_record_says_what_it_is_for(tmp_path: Path, name: str) -> None:
    told = text(desk(tmp_path), name)
    assert told.startswith("nothing was investigated yet: say first what is wrong; then " + name)
    assert slash.COMMANDS[name].help in told and told.count("\n") == 0


def test_what_is_known_is_answered(tmp_path: Path) -> None:
    at = desk(tmp_path)
    assert text(at, "/hosts").splitlines() == [
        "here: connected",
        "there: not reached, and left out: no route to host; start it",
        "what runs there is read first, once you have said what is wrong",
    ]
    assert text(at, "/cost").splitlines()[:2] == ["turns    0 of 40", "tokens   0 of 2,000,000"]
    assert text(at, "/context") == "0 of 100,000 tokens: nothing was said to a model yet"
    assert text(at, "/log") == f"no command ran yet; each will be kept in {tmp_path / 'audit'}"
    assert text(at, "/mode").startswith("propose: it looks and proposes changes")
    assert text(at, "/model").startswith("playbook\n")
    assert text(at, "/new") == "nothing was investigated yet: say what is wrong"
    assert text(at, "/resume") == "there is no other thread"


def test_a_mode_is_chosen_for_the_session_that_begins(tmp_path: Path) -> None:
    at = desk(tmp_path)
    assert slash.answer(at, "/mode apply").then == ModeTaken("apply")
    refused = slash.answer(at, "/mode bogus")
    assert refused.text == "no mode bogus; there are: read-only, propose, apply" and refused.then is None


def test_a_model_is_chosen_for_the_session_that_begins(tmp_path: Path) -> None:
    at = desk(tmp_path, models={"big": {"base_url": "http://127.0.0.1:8/v1"}})
    reply = slash.answer(at, "/model big")
    assert reply.text == "the first turn is taken by openai:big at http://127.0.0.1:8/v1"
    assert isinstance(reply.then, ModelTaken) and reply.then.settings is not None
    assert reply.then.settings.model == "big" and at.settings.model == "playbook"
    assert "needs an endpoint" in text(at, "/model other")
    assert "not a base URL" in text(at, "/model other nowhere")
    assert slash.answer(at, "/model playbook").text == "the first turn is taken by playbook"


def test_words_that_complete(tmp_path: Path) -> None:
    def words(typed: str) -> list[str]:
        return [one.word for one in slash.complete(desk(tmp_path), typed)]

    assert words("/mode a") == ["apply"] and words("/log ") == ["here"] and words("/model ") == ["playbook"]
    assert words("/evidence ") == [] and words("!") == []
