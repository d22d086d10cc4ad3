"""A project's file may only tighten, and nobody loosens what the site's file sets."""

from __future__ import annotations

import os

import pytest

from agent.config import in_force, load_settings, with_rights
from agent.errors import UsageError
from agent.surfaces.open_options import OpenOptions
from agent.surfaces.opening import settings_of
from tests.settings_folder import SettingsFolder, folder

__all__ = ["folder"]


@pytest.mark.parametrize(
    ("project", "field"),
    [
        ('base_url = "http://elsewhere.example/v1"', "base_url"),
        ('LEADLINE_BASE_URL = "http://elsewhere.example/v1"', "LEADLINE_BASE_URL"),
        ('OPENAI_BASE_URL = "http://elsewhere.example/v1"', "OPENAI_BASE_URL"),
        ('judge_base_url = "http://elsewhere.example/v1"', "judge_base_url"),
        ('api_key = "sk-theirs"', "api_key"),
        ('ssh_config = "evil"', "ssh_config"),
        ('known_hosts = "evil"', "known_hosts"),
        ('state_dir = "here"', "state_dir"),
        ('cache_dir = "here"', "cache_dir"),
        ('[hosts.gpu1]\nssh = "elsewhere"', "hosts.gpu1.ssh"),
        ("[hosts.theirs]", "hosts.theirs"),
        ("[models]\ntheirs = {}", "models.theirs"),
        ("[tools]\nallow_load = true", "tools.allow_load"),
        ("[tools]\nask_engine = true", "tools.ask_engine"),
        ("[policy]\nfree_form = true", "policy.free_form"),
        ('[policy]\nrules = "/tmp/rules.yaml"', "policy.rules"),
        ('[approvals.roles]\nadmin = ["terminal::mallory"]', "approvals.roles.admin"),
        ("[approvals]\nrequester_may_approve = true", "approvals.requester_may_approve"),
        ("[approvals]\nexpires_s = 80000", "approvals.expires_s"),
        ("[audit]\nrequired = false", "audit.required"),
        ("[audit]\ncopy_to = []", "audit.copy_to"),
        ('[slack]\nteams = ["T0ONE"]', "slack.teams"),
        ("max_cost_usd = 500.0", "max_cost_usd"),
        ("max_turns = true", "max_turns"),
        ("price_input_usd_per_mtok = 0.001", "price_input_usd_per_mtok"),
        ('trusted_projects = ["."]', "trusted_projects"),
    ],
)
def test_a_project_may_not_say_where_things_go_or_who_may_do_what(
    folder: SettingsFolder, project: str, field: str
) -> None:
    before = "[policy]\nfree_form = false\n[tools]\nallow_load = false\n"
    with pytest.raises(UsageError) as caught:
        folder.load(person=before, project=project)
    said = str(caught.value)
    assert field in said and ".leadline.toml" in said and "line" in said
    assert "not for a project to say" in said or "no such setting" in said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = " + "[" * 20_000, "nested too deeply"),
        ("[" + ".".join(["a"] * 5_000) + "]", "nested too deeply"),
        ("#" * (1 << 20) + "\n", "larger than 1 MiB"),
        (r'"\u001b]0;x\u0007" = 1', "no such setting"),
    ],
)
def test_a_file_that_is_no_settings_file_is_one_line(folder: SettingsFolder, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        folder.load(project=text)


def test_what_never_ends_is_not_read(folder: SettingsFolder) -> None:
    os.mkfifo(folder.project)
    with pytest.raises(UsageError, match="no regular file"):
        load_settings()
    folder.project.unlink()
    folder.project.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="no regular file"):
        load_settings()


def test_a_link_into_a_trusted_folder_is_not_trusted(folder: SettingsFolder) -> None:
    trusted = folder.root / "trusted"
    trusted.mkdir()
    (trusted / "some.toml").write_text('base_url = "http://elsewhere.example/v1"\n')
    folder.person.write_text(f'trusted_projects = ["{trusted}"]\n')
    folder.project.symlink_to(trusted / "some.toml")
    with pytest.raises(UsageError, match="not for a project to say"):
        load_settings()


def test_a_project_may_tighten_and_choose_what_harms_nobody(folder: SettingsFolder) -> None:
    settings = folder.load(
        person="max_turns = 30\n[tools]\nallow_load = true\n",
        project='model = "small"\nmax_turns = 10\nmax_cost_usd = 1\n'
        "[tools]\nallow_load = false\nview_chars = 9000\n"
        "[policy]\nfree_form = false\n[approvals]\nrequester_may_approve = false\nexpires_s = 60\n"
        "[audit]\nrequired = true\n",
    )
    assert (settings.model, settings.max_turns, settings.max_cost_usd) == ("small", 10, 1.0)
    assert not settings.tools.allow_load and settings.tools.view_chars == 9000
    assert not settings.policy.free_form and settings.approvals.requester_may_approve is False
    with pytest.raises(UsageError, match="max_turns is not for a project to say, which may only lower it"):
        folder.load(person="max_turns = 30", project="max_turns = 31")


def test_a_folder_that_the_person_trusts_may_say_more_but_not_trust_itself(folder: SettingsFolder) -> None:
    wants = 'base_url = "http://gpu1:30000/v1"\n[hosts.gpu1]\nrole = "decode"\n'
    with pytest.raises(UsageError, match="trust this folder there: trusted_projects = ") as caught:
        folder.load(project=wants)
    assert str(folder.project.parent) in str(caught.value)
    with pytest.raises(UsageError, match="trusted_projects is not for a project"):
        folder.load(project=f'trusted_projects = ["{folder.project.parent}"]\n{wants}')
    trusting = f'trusted_projects = ["{folder.project.parent}"]\n'
    settings = folder.load(person=trusting, project=wants)
    assert settings.base_url == "http://gpu1:30000/v1" and settings.hosts["gpu1"].role == "decode"
    with pytest.raises(UsageError, match="for everybody on this machine"):
        folder.load(
            person=trusting, project="[tools]\nallow_load = true", site="[tools]\nallow_load = false\n"
        )


@pytest.mark.parametrize(
    ("site", "person", "field"),
    [
        ("[tools]\nallow_load = false", "[tools]\nallow_load = true", "tools.allow_load"),
        ("[policy]\nfree_form = false", "[policy]\nfree_form = true", "policy.free_form"),
        ("[audit]\nrequired = true", "[audit]\nrequired = false", "audit.required"),
        ('[audit]\ncopy_to = ["/mnt/log"]', "[audit]\ncopy_to = []", "audit.copy_to"),
        ("[audit]\nmax_bytes = 5000", 'audit.syslog_socket = "/dev/null"', "audit.syslog_socket"),
        (
            '[approvals.roles]\napprover = ["terminal::ana"]',
            '[approvals.roles]\nadmin = ["terminal::bo"]',
            "approvals.roles.admin",
        ),
        ("[approvals]\nexpires_s = 600", "[approvals]\nexpires_s = 601", "approvals.expires_s"),
        (
            "[approvals]\nexpires_s = 600",
            "[approvals]\nrequester_may_approve = true",
            "approvals.requester_may_approve",
        ),
    ],
)
def test_a_person_does_not_loosen_what_the_site_sets(
    folder: SettingsFolder, site: str, person: str, field: str
) -> None:
    folder.load(site=site)
    folder.load(person=person)
    with pytest.raises(UsageError) as caught:
        folder.load(site=site, person=person)
    said = str(caught.value)
    assert f"setting {field} is" in said and str(folder.site) in said and str(folder.person) in said


def test_neither_environment_nor_flag_loosens_it(
    folder: SettingsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = "[tools]\nallow_load = false\n[policy]\nfree_form = false\n"
    settings = folder.load(site=site)
    with pytest.raises(UsageError, match=r"tools.allow_load is true by a flag, but .* line 2 has false"):
        with_rights(settings, allow_load=True)
    with pytest.raises(UsageError, match="by a flag"):
        settings_of(OpenOptions(host="gpu1", allow_load=True))
    assert settings_of(OpenOptions(host="gpu1", send_rg=True)).tools.allow_send_rg
    assert settings_of(OpenOptions(host="lab:kimi-k26-pp8")).tools.allow_load, "simulated hosts harm nobody"
    monkeypatch.setenv("LEADLINE_POLICY__FREE_FORM", "true")
    with pytest.raises(UsageError, match=r"policy.free_form is true by LEADLINE_POLICY__FREE_FORM"):
        folder.load(site=site)
    monkeypatch.delenv("LEADLINE_POLICY__FREE_FORM")
    monkeypatch.setenv("LEADLINE_TOOLS", '{"allow_load": true}')
    with pytest.raises(UsageError, match=r"tools.allow_load is true by LEADLINE_TOOLS"):
        folder.load(site=site)


def test_a_person_may_be_stricter_than_the_site(folder: SettingsFolder) -> None:
    settings = folder.load(
        site='[tools]\nallow_load = true\n[audit]\ncopy_to = ["/mnt/log"]\n'
        '[approvals.roles]\napprover = ["http:a:b"]\n',
        person='[tools]\nallow_load = false\n[audit]\ncopy_to = ["/mnt/log", "/mnt/two"]\n'
        "[approvals.roles]\napprover = []\n[approvals]\nexpires_s = 60\n",
    )
    assert not settings.tools.allow_load and len(settings.audit.copy_to) == 2
    assert settings.approvals.roles.approver == () and settings.approvals.expires_s == 60


def test_a_run_of_days_hears_of_a_site_that_became_stricter(folder: SettingsFolder) -> None:
    settings = folder.load(person="[policy]\nfree_form = true\n")
    folder.site.write_text("[policy]\nfree_form = false\n")
    with pytest.raises(UsageError, match=r"policy.free_form is true by .*config.toml line 2"):
        in_force(settings)
