"""A person's settings folder of its own, with no other file of settings in reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import config
from agent.config import Settings, load_settings


class SettingsFolder:
    """Write settings files of each rank below one folder, and load them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.site = root / "etc" / "config.toml"
        self.person = root / "config" / "leadline" / "config.toml"
        self.project = root / "work" / ".leadline.toml"
        self.ssh_config = root / ".ssh" / "config"
        for path in (self.site, self.person, self.project, self.ssh_config):
            path.parent.mkdir(parents=True)
        for name, value in {
            "HOME": root,
            "XDG_CONFIG_HOME": root / "config",
            "XDG_STATE_HOME": root / "state",
            "XDG_CACHE_HOME": root / "cache",
        }.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setattr(config, "SITE", self.site)
        monkeypatch.chdir(self.project.parent)

    def load(self, person: str = "", site: str = "", project: str = "", **flags: object) -> Settings:
        """Write the files and return the settings in force."""
        for path, text in ((self.site, site), (self.person, person), (self.project, project)):
            path.write_text(text)
        return load_settings(**flags)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SettingsFolder:
    """Give a settings folder."""
    return SettingsFolder(tmp_path, monkeypatch)
