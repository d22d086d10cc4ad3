"""Settings: the one module that reads the environment and the configuration files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from agent.audit_settings import AuditSettings
from agent.chat_settings import ChatSettings
from agent.config_doubts import Doubt, exposed_keys, tell, unknown_variables
from agent.config_rules import check_project, loosened, too_loose
from agent.config_sources import Origin, Rank, origin_in, read_files, wrong
from agent.config_variables import by_its_own_name, not_json, variable_of
from agent.errors import UsageError
from agent.inventory_settings import HostEntry, host_name
from agent.model_settings import ModelEntry, chosen, model_name, place_of
from agent.notes_settings import NotesSettings
from agent.roles import ApprovalSettings
from agent.slack_settings import SlackSettings
from tools.contract import ToolSettings
from tools.policy_settings import PolicySettings
from tools.wrong_fields import first_wrong

SITE = Path("/etc/leadline/config.toml")
"""The settings of whoever runs this machine."""


def _xdg(name: str, fallback: str) -> Path:
    return Path(os.environ.get(name) or Path.home() / fallback) / "leadline"  # noqa: TID251


def config_files() -> list[Path]:
    """Return the configuration files in rising priority: site, person, project."""
    return [
        SITE,
        _xdg("XDG_CONFIG_HOME", ".config") / "config.toml",
        Path(".leadline.toml"),
    ]


def notes_files() -> list[tuple[Rank, Path]]:
    """Return where the notes of site and person stand, beside their settings."""
    return [("site", SITE.with_name("AGENTS.md")), ("person", config_files()[1].with_name("AGENTS.md"))]


def _slack_keys() -> dict[str, dict[str, str]]:
    """Return the keys of Slack by the names every Slack application reads, or from systemd's files."""
    names = {
        "bot_token": "SLACK_BOT_TOKEN",
        "app_token": "SLACK_APP_TOKEN",
        "signing_secret": "SLACK_SIGNING_SECRET",
    }
    found = {field: os.environ.get(name) or _credential(name) for field, name in names.items()}  # noqa: TID251
    keys = {field: value for field, value in found.items() if value}
    return {"slack": keys} if keys else {}


def _credential(name: str) -> str | None:
    """Return a key that systemd keeps in a file for this service alone: ``LoadCredential=NAME:PATH``."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")  # noqa: TID251
    file = Path(folder or ".") / name
    return file.read_text(encoding="utf-8").strip() if folder and file.is_file() else None


class Settings(BaseSettings):
    """Hold every setting; flags beat environment (``LEADLINE_*``), which beats the files, then defaults."""

    model_config = SettingsConfigDict(env_prefix="LEADLINE_", env_nested_delimiter="__", extra="forbid")

    state_dir: Path = Field(
        default_factory=lambda: _xdg("XDG_STATE_HOME", ".local/state"),
        description="Where transcripts, outputs, case files and labs lie.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: _xdg("XDG_CACHE_HOME", ".cache"), description="Package sources for labs."
    )
    model: str = Field(
        default="playbook",
        description="playbook, or the name of a model at base_url.",
        validation_alias=AliasChoices("LEADLINE_MODEL", "model"),
    )
    base_url: str | None = Field(
        default=None,
        description="OpenAI-compatible endpoint, such as http://gpu1:30000/v1; also OPENAI_BASE_URL.",
        validation_alias=AliasChoices("LEADLINE_BASE_URL", "OPENAI_BASE_URL", "base_url"),
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="The key of base_url; better in LEADLINE_API_KEY or OPENAI_API_KEY.",
        validation_alias=AliasChoices("LEADLINE_API_KEY", "OPENAI_API_KEY", "api_key"),
    )
    model_stream: bool = Field(
        default=True, description="Stream answers; an endpoint that refuses is asked for whole ones."
    )
    model_retries: int = Field(default=3, ge=0, description="Further tries of a turn that failed on the way.")
    model_start_s: float = Field(
        default=300.0, gt=0, description="Seconds to wait for an answer to begin, or for a whole one."
    )
    model_stall_s: float = Field(
        default=60.0, gt=0, description="Seconds of silence after which a begun answer counts as stalled."
    )
    context_tokens: int = Field(
        default=100_000, ge=1_000, description="What a request may hold; older tool results are cut to fit."
    )
    price_input_usd_per_mtok: float = Field(default=0.0, ge=0, description="For max_cost_usd.")
    price_output_usd_per_mtok: float = Field(default=0.0, ge=0, description="For max_cost_usd.")
    judge_model: str | None = Field(
        default=None, description="Model that adds its opinion to eval results; it decides nothing."
    )
    judge_base_url: str | None = Field(default=None, description="Its endpoint; default: base_url.")
    ssh_config: Path | None = Field(
        default_factory=lambda: Path.home() / ".ssh" / "config",
        description="Aliases, as ssh reads them.",
    )
    known_hosts: Path = Field(
        default_factory=lambda: Path.home() / ".ssh" / "known_hosts",
        description="Keys of hosts you know.",
    )
    max_turns: int = Field(default=40, ge=1, description="Turns of the model before it must conclude.")
    max_tokens: int = Field(default=2_000_000, ge=1, description="Tokens of an investigation, in and out.")
    max_cost_usd: float = Field(default=5.0, ge=0, description="US dollars, by the prices that are set.")
    max_wall_s: float = Field(default=3600.0, gt=0, description="Seconds of work on an investigation.")
    experiment_repeats: int = Field(
        default=3, ge=1, le=20, description="Runs of each level, before and after, at least."
    )
    experiment_spread: float = Field(
        default=0.06, gt=0, le=1, description="Runs are added until the mean is sure within this share."
    )
    experiment_max_repeats: int = Field(default=9, ge=1, le=20, description="Runs of each level, at most.")
    experiment_requests: int = Field(default=1, ge=1, le=64, description="Per unit of concurrency and run.")
    experiment_tokens: int = Field(default=64, ge=2, le=4096, description="Output tokens of each request.")
    experiment_max_s: float = Field(default=1800.0, gt=0, description="A longer measurement is given up.")
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings)
    tools: ToolSettings = Field(default_factory=ToolSettings)
    audit: AuditSettings = Field(default_factory=AuditSettings)
    policy: PolicySettings = Field(default_factory=PolicySettings)
    slack: SlackSettings = Field(default_factory=SlackSettings)
    chat: ChatSettings = Field(default_factory=ChatSettings)
    hosts: dict[Annotated[str, AfterValidator(host_name)], HostEntry] = Field(
        default_factory=dict, description="The inventory: one table a host."
    )

    models: dict[Annotated[str, AfterValidator(model_name)], ModelEntry] = Field(
        default_factory=dict, description="Models by a name of ours, for `model` and -m."
    )
    notes: NotesSettings = Field(default_factory=NotesSettings)
    seen_before: bool = Field(
        default=True, description="Is the model told of earlier cases of the same host or engine version?"
    )
    runbooks: list[Path] = Field(
        default_factory=lambda: [file.with_name("runbooks") for file in config_files()[:2]],
        description="Folders of runbooks, each a folder with a SKILL.md.",
    )
    trusted_projects: list[Path] = Field(
        default_factory=list, description="Folders whose .leadline.toml may say what a person's own file may."
    )

    _flags: dict[str, object] | None = PrivateAttr(default=None)
    """What `load_settings` was given, so that files can be read again; None for settings made otherwise."""
    _named: str | None = PrivateAttr(default=None)
    """The entry of `models` that the settings of the model were taken from."""
    _unnamed: dict[str, object] = PrivateAttr(default_factory=dict)
    """What stood in their place before."""

    @property
    def named_model(self) -> str | None:
        """Return the name under ``[models]`` that was chosen; None for a model that has none."""
        return self._named

    @model_validator(mode="after")
    def _the_policy_goes_with_the_tools(self) -> Self:
        """Hand the policy to whatever is handed the settings of the tools."""
        if self.tools.policy not in (PolicySettings(), self.policy):
            raise ValueError("write it under [policy], not under [tools]")
        self.tools = self.tools.model_copy(update={"policy": self.policy})
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put flags before environment before files; later files win over earlier ones."""
        read = read_files(config_files())
        check_project(settings_cls, read)
        files = [InitSettingsSource(settings_cls, init_kwargs=dict(file.data)) for file in reversed(read)]
        slack_keys = InitSettingsSource(settings_cls, init_kwargs=_slack_keys())
        return (init_settings, env_settings, slack_keys, *files)


def load_settings(**flags: object) -> Settings:
    """Return the settings in force; raise `UsageError` that names field and files when one is wrong."""
    try:
        found = Settings(**flags)  # type: ignore[arg-type]
        found._flags = flags
        refuse_looser(found)
        tell(doubts(found))
        return with_model(found, found.model, flags.get("base_url")) if found.model in found.models else found
    except ValidationError as error:
        refused = by_its_own_name(Settings, first_wrong(error, "settings", Settings))
        raise wrong(read_files(config_files()), refused, _variable_of(refused.place)) from error
    except SettingsError as error:
        what = f"{not_json(str(error))} does not hold JSON"
        raise UsageError(what, do="write a list, or a table, as JSON") from error


def given_secrets() -> list[str]:
    """Return our own secrets as they were given, also where the settings as a whole are wrong."""
    from agent.config_secrets import given

    return [*_slack_keys().get("slack", {}).values(), *given(Settings, os.environ, config_files())]  # noqa: TID251


def doubts(settings: Settings) -> list[Doubt]:
    """Return what is doubtful about where these settings come from."""
    own = {entry.api_key_env for entry in settings.models.values() if entry.api_key_env}
    unknown = unknown_variables(os.environ, Settings.model_fields, own)  # noqa: TID251
    return unknown + exposed_keys(read_files(config_files()))


def with_model(settings: Settings, name: str, base_url: object = None) -> Settings:
    """Return settings under which a model of the inventory of models takes the turns, at its prices.

    The key of `api_key` goes with it only to the endpoint of `base_url`. Raises `UsageError` for a name that
    is not there, and for an entry that cannot be used.
    """
    taken = chosen(settings.models, name, base_url, os.environ)  # noqa: TID251
    plain = settings.model_copy(update=settings._unnamed)
    found = plain.model_copy(update=taken)
    found._named, found._unnamed = name, {field: getattr(plain, field) for field in taken}
    return found


def with_rights(settings: Settings, **flags: bool) -> Settings:
    """Return settings with rights that flags give; raise `UsageError` for what the site does not allow."""
    given = {name: True for name, on in flags.items() if on}
    if not given:
        return settings
    found = settings.model_copy(update={"tools": settings.tools.model_copy(update=given)})
    refuse_looser(found, by="a flag")
    return found


def refuse_looser(settings: Settings, by: str = "") -> None:
    """Raise `UsageError` when settings are looser than the site's file has them for everybody here."""
    site = next((file for file in read_files(config_files()) if file.rank == "site"), None)
    found = loosened(site, settings) if site is not None else None
    if site is None or found is None:
        return
    by = by or origin_of(found[0], settings._flags or {}).text
    raise too_loose(site, found, by)


def origin_of(location: Sequence[str], flags: Mapping[str, object], named: str | None = None) -> Origin:
    """Return what gave the value of a setting: a flag, the environment, a file and its line, or nothing.

    With the name of a model that was chosen, what its entry says counts first.
    """
    files, variable = read_files(config_files()), _variable_of(tuple(location))
    return origin_in(files, location, flags, variable, place_of(named, location))


def _variable_of(location: Sequence[str | int]) -> str | None:
    found = variable_of(Settings, os.environ, location)  # noqa: TID251
    if found is None and location[:1] == ("slack",) and location[-1] in _slack_keys().get("slack", {}):
        return f"SLACK_{str(location[-1]).upper()}"
    return found


def files_with(section: str) -> list[Path]:
    """Return the settings files that say something under a section, in rising priority."""
    return [file.path for file in read_files(config_files()) if section in file.data]


def in_force(settings: Settings) -> Settings:
    """Return settings with roles and command policy as the files have them now; raise `UsageError`.

    A process may run for days: what a person may approve, and what may run, is what the site says today.
    """
    if settings._flags is None:
        return settings
    now = load_settings(**settings._flags)
    return settings.model_copy(update={"approvals": now.approvals, "policy": now.policy})


def in_tmux() -> bool:
    """Tell whether the terminal is one of tmux."""
    return bool(os.environ.get("TMUX"))  # noqa: TID251


def environment_without(*names: str) -> dict[str, str]:
    """Return the environment for a library that reads it, less some variables."""
    return {name: value for name, value in os.environ.items() if name not in names}  # noqa: TID251


def pager() -> str:
    """Return the command that pages long texts, empty where the person named none."""
    return os.environ.get("PAGER", "")  # noqa: TID251


def shows_notices() -> bool:
    """Tell whether the terminal shows a notice of its own for OSC 9; others ring a bell at best."""
    program = os.environ.get("TERM_PROGRAM", "")  # noqa: TID251
    term = os.environ.get("TERM", "")  # noqa: TID251
    known = program in ("iTerm.app", "WezTerm", "ghostty") or term in ("xterm-kitty", "xterm-ghostty", "foot")
    return known and not in_tmux()


def pin_libraries() -> None:
    """Fix what libraries read from the environment: checkpoints of plain types only, no tracing elsewhere.

    To be called before langgraph is imported, which reads these once.
    """
    pins = {
        "LANGGRAPH_STRICT_MSGPACK": "true",
        "LANGSMITH_TRACING": "false",
        "LANGSMITH_TRACING_V2": "false",
        "LANGCHAIN_TRACING": "false",
        "LANGCHAIN_TRACING_V2": "false",
    }
    os.environ.update(pins)  # noqa: TID251
