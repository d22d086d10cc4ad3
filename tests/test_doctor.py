"""``leadline doctor``: every part of a setup, in order and out of it, over real endpoints on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.models import ToolSchema
from agent.models.scripted import ScriptedServer
from agent.models.scripted_script import FaultKind
from agent.slack.manifest import scopes
from agent.state import AssistantTurn, Message, ToolCall
from agent.surfaces.doctor import DoctorOptions, examined, run, text
from agent.surfaces.doctor_types import Check
from evals.loopback_sshd import free_port
from tests.fake_slack import FakeSlack
from tests.fake_slack_world import TEAM
from tests.settings_folder import SettingsFolder, folder
from tests.sshd_fixtures import asyncssh_server

__all__ = ["folder"]


class Able:
    """Answer the doctor's questions as a model does that can do all of it, or less."""

    def __init__(
        self, *, tools: bool = True, parallel: bool = True, reasoning: str = "", said: str = "ready"
    ) -> None:
        self._calls = (2 if parallel else 1) if tools else 0
        self._reasoning, self._said = reasoning, said

    async def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> AssistantTurn:
        count = min(self._calls, 2 if "twice" in str(messages[-1]["content"]) else 1) if tools else 0
        calls = [ToolCall(id=f"c{n}", name="note", arguments='{"word": "ready"}') for n in range(count)]
        return AssistantTurn(text="" if calls else self._said, reasoning=self._reasoning, tool_calls=calls)


def asked(*hosts: str, fresh: bool = False) -> DoctorOptions:
    return DoctorOptions(hosts=list(hosts), model=None, base_url=None, fresh=fresh, as_json=True)


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.about: check for check in checks}


async def of_model(
    folder: SettingsFolder,
    answers: Able,
    name: str = "scripted",
    faults: dict[int, FaultKind] | None = None,
    **more: bool,
) -> tuple[dict[str, Check], ScriptedServer]:
    server = ScriptedServer(answers, faults or {})
    url = await server.start()
    folder.load(f'base_url = "{url}"\nmodel = "{name}"\n')
    try:
        return by_name(await examined(asked(**more))), server
    finally:
        await server.close()


async def test_a_model_that_can_do_all_is_in_order(folder: SettingsFolder) -> None:
    found, server = await of_model(folder, Able(reasoning="let me think"))
    about = ["model", "tool calls", "parallel tool calls", "streaming", "reasoning"]
    assert [found[name].verdict for name in about] == ["ok"] * 5, found
    assert "scripted is served at http://127.0.0.1" in found["model"].says
    assert found["parallel tool calls"].says == "2 in one turn"
    assert found["reasoning"].says == "thoughts come in a field of their own"
    assert len(server.requests) == 4, "one request for each"


async def test_what_a_model_cannot_do_is_told_with_what_to_do(folder: SettingsFolder) -> None:
    found, _ = await of_model(folder, Able(parallel=False, said="hm</think> ready"))
    assert found["parallel tool calls"].verdict == "warning"
    assert found["reasoning"].verdict == "warning" and "--reasoning-parser" in found["reasoning"].do
    found, _ = await of_model(folder, Able(tools=False), fresh=True)
    assert found["tool calls"].verdict == "broken" and "'ready'" in found["tool calls"].says


async def test_it_is_asked_once_a_day_and_anew_when_that_is_wanted(folder: SettingsFolder) -> None:
    server = ScriptedServer(Able())
    url = await server.start()
    folder.load(f'base_url = "{url}"\nmodel = "scripted"\n')
    try:
        await examined(asked())
        again = by_name(await examined(asked()))
        assert len(server.requests) == 4 and "learnt 0 h ago" in again["tool calls"].says
        await examined(asked(fresh=True))
        assert len(server.requests) == 8
        kept = list((folder.root / "state" / "leadline" / "doctor").iterdir())
        assert len(kept) == 1 and kept[0].stat().st_mode & 0o777 == 0o600
        kept[0].write_text("{")
        await examined(asked())
        assert len(server.requests) == 12, "what cannot be read is learnt anew"
    finally:
        await server.close()


@pytest.mark.parametrize("fault", ["no-tools", "401", "500", "html"])
async def test_an_endpoint_that_fails_is_never_called_able(folder: SettingsFolder, fault: FaultKind) -> None:
    found, _ = await of_model(folder, Able(), faults=dict.fromkeys(range(1, 5), fault))
    verdict = "broken" if fault == "no-tools" else "skipped"
    assert found["tool calls"].verdict == verdict and found["tool calls"].do, found["tool calls"]
    _, server = await of_model(folder, Able())
    assert fault == "no-tools" or len(server.requests) == 4, "what was not learnt is not kept"


async def test_an_endpoint_that_is_not_there_or_serves_others(folder: SettingsFolder) -> None:
    found, server = await of_model(folder, Able(), name="other")
    assert found["model"].verdict == "broken" and "does not list other" in found["model"].says
    assert "scripted" in found["model"].do and server.requests == []
    assert found["capabilities"].verdict == "skipped"
    folder.load(f'base_url = "http://127.0.0.1:{free_port()}/v1"\nmodel = "m"\n')
    checks = by_name(await examined(asked()))
    assert checks["model"].verdict == "broken" and checks["model"].do


async def test_other_named_models_are_looked_up(folder: SettingsFolder) -> None:
    server = ScriptedServer(Able())
    url = await server.start()
    folder.load(
        f'[models.good]\nmodel = "scripted"\nbase_url = "{url}"\n'
        f'[models.gone]\nbase_url = "{url}"\n[models.keyless]\nbase_url = "{url}"\napi_key_env = "NOT_SET"\n'
    )
    try:
        found = by_name(await examined(asked()))
    finally:
        await server.close()
    assert found["models.good"].verdict == "ok" and server.requests == []
    assert "does not list gone" in found["models.gone"].says
    assert found["models.keyless"].do == "set NOT_SET"


async def test_hosts_are_lines_and_one_that_is_down_breaks_it(
    folder: SettingsFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "server"
    root.mkdir()
    async with asyncssh_server(root) as server:
        key = (root / "host_key.pub").read_text().strip()
        folder.load(
            f'[hosts.up]\nssh = "127.0.0.1:{server.port}"\nkey = "{root / "client_key"}"\n'
            f'host_key = "{key}"\n'
            f'[hosts.down]\nssh = "127.0.0.1:{free_port()}"\nhost_key = "{key}"\n'
        )
        found = by_name(await examined(asked()))
        assert found["host down"].verdict == "broken" and "check the port" in found["host down"].do
        assert "host up" in found and found["host up"].says
        only = by_name(await examined(asked("up")))
        assert "host down" not in only
        with pytest.raises(SystemExit) as left:
            await asyncio.to_thread(run, asked("down"))
        assert left.value.code == 1
    told = json.loads(capsys.readouterr().out)
    assert told["broken"] == 1 and any(row["about"] == "host down" for row in told["checks"])


async def test_settings_that_cannot_be_read_are_the_one_line(folder: SettingsFolder) -> None:
    folder.person.write_text("max_turn = 1\n")
    checks = await examined(asked())
    assert [check.verdict for check in checks] == ["broken"]
    assert "max_turn" in checks[0].says and "nearest: max_turns" in checks[0].do
    folder.load("[hosts.gpu1]\n")
    checks = await examined(asked("gpu11"))
    assert "no host gpu11" in checks[0].says


async def test_a_state_folder_that_cannot_be_written_or_is_open(folder: SettingsFolder) -> None:
    (folder.root / "file").write_text("")
    folder.load(f'state_dir = "{folder.root}/file/state"\n')
    found = by_name(await examined(asked()))
    assert found["state folder"].verdict == "broken" and "LEADLINE_STATE_DIR" in found["state folder"].do
    (folder.root / "open").mkdir(mode=0o755)
    folder.load(f'state_dir = "{folder.root}/open"\n')
    found = by_name(await examined(asked()))
    assert found["state folder"].do == f"chmod 700 {folder.root}/open"


KEYS = 'bot_token = "xoxb-fake"\napp_token = "xapp-fake"\n'


async def of_slack(folder: SettingsFolder, slack: FakeSlack, text: str) -> dict[str, Check]:
    folder.load(f'{HOSTS}[slack]\napi_url = "{slack.api_url}"\n{text}')
    return by_name(await examined(asked("local")))


HOSTS = (
    "[hosts.pinned]\nhost_key = "
    '"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ0bXJzdHV2d3h5ejAxMjM0NTY3ODkwYWJjZGVm"\n[hosts.bare]\n'
)


async def test_the_slack_bot_is_asked_who_it_is(folder: SettingsFolder) -> None:
    async with FakeSlack(scopes=scopes()) as slack:
        team = TEAM
        good = f'teams = ["{team}"]\nhosts = ["pinned"]\n{KEYS}'
        found = await of_slack(folder, slack, good)
        named = ["slack bot token", "slack scopes", "slack socket mode", "slack hosts"]
        assert [found[name].verdict for name in named] == ["ok"] * 4, found
        found = await of_slack(folder, slack, good.replace("pinned", "bare"))
        assert found["slack hosts"].says == "no host_key: bare"
        found = await of_slack(folder, slack, good.replace(team, "T0OTHER"))
        assert found["slack bot token"].do == f'write teams = ["{team}"]'
        slack.scopes.discard("chat:write")
        found = await of_slack(folder, slack, good)
        assert found["slack scopes"].verdict == "broken" and "chat:write" in found["slack scopes"].says
        found = await of_slack(folder, slack, good.replace("xoxb-fake", "xoxb-wrong"))
        assert "invalid_auth" in found["slack bot token"].says
        found = await of_slack(folder, slack, good.replace("xapp-fake", "xapp-wrong"))
        assert found["slack socket mode"].verdict == "broken"
        assert "xapp-wrong" not in text(list(found.values()))
        for begun in (f'teams = ["{team}"]\n', ""):  # as `leadline init` leaves it
            found = await of_slack(folder, slack, begun)
            assert found["slack"].do == "set SLACK_BOT_TOKEN (xoxb-...)"
    found = await of_slack(folder, slack, good)
    assert found["slack"].verdict == "broken" and "is not reached" in found["slack"].says


async def test_where_slack_is_not_configured_nothing_is_asked(folder: SettingsFolder) -> None:
    folder.load()
    found = by_name(await examined(asked()))
    assert found["slack"].verdict == "skipped" and found["slack"].says == "not configured"
    lines = text(list(found.values())).splitlines()
    assert lines[-1] in ("all in order", "0 broken, 1 to be watched", "0 broken, 2 to be watched")
