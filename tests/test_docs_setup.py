"""What the pages on configuration and on the command line show is what the program does."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings, load_settings
from agent.errors import ExitCode, UsageError
from agent.inventory_settings import HostEntry
from agent.model_settings import ModelEntry
from agent.models.scripted import ScriptedServer
from agent.models.scripted_script import by_method
from agent.slack_settings import SlackChannel
from agent.surfaces.cli import app
from agent.surfaces.doctor import DoctorOptions, examined, text
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]

DOCS = Path(__file__).parents[1] / "docs"
LIST = DOCS / "configuration-list.md"
TABLES: dict[str, Any] = {
    "hosts": ("hosts.NAME", HostEntry),
    "models": ("models.NAME", ModelEntry),
    "slack.channels": ("slack.channels.ID", SlackChannel),
}
HEAD = """\
# All settings

How settings are read, and what each file may say, stands in [configuration](configuration.md). This list is
made from the settings themselves: `pytest tests/test_docs_setup.py --renew-snapshots`.

| setting | default | what it says |
|---|---|---|
"""


def fenced(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def rows(model: Any, before: str = "") -> list[str]:
    """Return a row for every setting of a table, and of the tables in it."""
    found = []
    for name, field in model.model_fields.items():
        place = f"{before}{name}"
        if place == "tools.policy":  # written under [policy]
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        if place in TABLES:
            found.append(f"| `{place}` | none | {field.description} |")
            label, entry = TABLES[place]
            found += rows(entry, f"{label}.")
        elif hasattr(field.annotation, "model_fields"):
            found += rows(field.annotation, f"{place}.")
        else:
            assert field.description, f"{place} has no description"
            required = "required" if field.is_required() else shown(default)
            found.append(f"| `{place}` | {required} | {field.description.replace('|', chr(92) + '|')} |")
    return found


def shown(default: Any) -> str:
    if default is None or default in ((), [], {}, ""):
        return "none"
    if isinstance(default, list | tuple):
        return ", ".join(map(shown, default))
    said = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{said.replace(str(Path.home()), '~')}`"


def test_the_list_of_all_settings_is_up_to_date(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    now = HEAD + "\n".join(rows(Settings)) + "\n"
    if request.config.getoption("--renew-snapshots"):
        LIST.write_text(now)
    assert LIST.read_text() == now, "stale: see its head"


@pytest.mark.parametrize("page", ["configuration", "hosts", "approvals", "audit", "policy", "slack"])
def test_every_example_of_a_settings_file_can_be_read(folder: SettingsFolder, page: str) -> None:
    blocks = fenced(DOCS / f"{page}.md", "toml")
    assert blocks
    rules = folder.site.with_name("policy.yaml")
    rules.write_text("rules: []\n")
    for block in blocks:
        tomllib.loads(block)
        whole = block.replace("AAAAI...", "AAAAI" + "A" * 40)
        settings = folder.load(site=whole.replace("/etc/leadline/policy.yaml", str(rules)))
        assert settings.model_fields_set, block


async def test_the_line_that_doctor_is_shown_with(folder: SettingsFolder) -> None:
    server = ScriptedServer(by_method())
    url = await server.start()
    folder.load(f'base_url = "{url}"\nmodel = "small"\n')
    options = DoctorOptions(hosts=[], model=None, base_url=None, fresh=False, as_json=False)
    try:
        checks = await examined(options)
    finally:
        await server.close()
    _, *lines = example("leadline doctor")
    assert "\n".join(lines) in text(checks).replace(url, "http://gpu1:30000/v1")


def test_the_line_that_a_wrong_setting_is_shown_with(folder: SettingsFolder) -> None:
    folder.person.write_text("\n\nmax_turn = 3\n")
    with pytest.raises(UsageError) as raised:
        load_settings()
    _, line = example("leadline config show")
    here = line.replace("/home/ana/.config/leadline", str(folder.person.parent))
    assert f"leadline: {raised.value}" == here


def example(command: str) -> list[str]:
    """Return the lines of the example that begins with a command."""
    found = [block.splitlines() for block in fenced(DOCS / "configuration.md", "console")]
    return next(lines for lines in found if lines[0] == f"$ {command}" and len(lines) > 1)


def test_the_table_of_exit_codes_is_that_of_the_program() -> None:
    page = (DOCS / "cli.md").read_text().partition("## Exit codes")[2].partition("##")[0]
    cells = re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE)
    listed = {int(code) for cell in cells for code in cell.split(",")}
    assert listed == {int(code) for code in ExitCode}


def lines_of_the_table() -> list[list[str]]:
    """Return the command lines of the first table, each alternative made whole."""
    found: list[list[str]] = []
    for row in (DOCS / "cli.md").read_text().splitlines():
        if not row.startswith("| `"):
            continue
        whole: list[str] = []
        for span in re.findall(r"`([^`]+)`", row.replace("\\|", "PIPE").split("|")[1]):
            words = shlex.split(re.sub(r"[\[\]]|\.\.\.", "", span.rpartition("PIPE")[2]))
            whole = words if words[0] == "leadline" else [*whole[:2], *words]
            if whole[:1] == ["leadline"] and whole not in found:
                found.append(whole)
    return found


@pytest.mark.parametrize("words", lines_of_the_table(), ids=" ".join)
def test_a_command_of_the_table_is_understood(words: list[str]) -> None:
    given = ["1" if word in ("N", "PORT") else word for word in words[1:]]
    if given[:1] == ["-p"]:  # as the entry point has it
        given[0] = "ask"
    # The parser reads all of a line before it shows the help that is asked for at the end.
    with pytest.raises(SystemExit) as left:
        app([*given, "--help"], prog_name="leadline")
    assert not left.value.code


def test_what_is_shown_of_mistyped_words_is_what_is_said() -> None:
    shown = [block.splitlines() for block in fenced(DOCS / "cli.md", "console")]
    lines = [line for block in shown for line in block]
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    assert pairs
    for command, line in pairs:
        with pytest.raises(UsageError) as raised:
            app(shlex.split(command)[2:], prog_name="leadline")
        assert f"leadline: {raised.value}" == line
