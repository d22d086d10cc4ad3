"""One host of the inventory: what stands under ``[hosts.NAME]`` of a settings file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

HostRole = Literal["router", "prefill", "decode", "worker"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PLUGIN = re.compile(r"[a-z][a-z0-9]*:[A-Za-z][^\s,]*")
_SSH = re.compile(
    r"([A-Za-z0-9_][A-Za-z0-9_.-]*\$?@)?([A-Za-z0-9_][A-Za-z0-9_.-]*(:\d+)?|[\da-f]*:[\da-f:.]+|\[[\da-f:.]+\](:\d+)?)"
)
_WORDS = frozenset({"all", "local", "host", "hosts"})
_KEY = re.compile(r"(ssh-[a-z0-9-]+|ecdsa-sha2-[a-z0-9-]+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/]{20,}={0,3}( .*)?")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name: letters, digits, '.', '_' and '-' only")
    return text


def host_name(text: str) -> str:
    """Return the name of a host of the inventory, or say why it cannot be one."""
    if text in _WORDS:
        raise ValueError(f"a host cannot be named {text!r}: that word has another meaning")
    return _name(text)


def _keys(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _key(text: str) -> str:
    text = " ".join(text.split())
    if not _KEY.fullmatch(text):
        raise ValueError("not a public host key; it looks like: ssh-ed25519 AAAAC3Nza... (see ssh-keyscan)")
    return text


def _place(text: str) -> str:
    if not (_PLUGIN.fullmatch(text) or _SSH.fullmatch(text)):
        raise ValueError(f"not a host: {text!r}; write [user@]host[:port]")
    return text


class HostEntry(BaseModel):
    """Say where one host is, which keys it shows, and what runs there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ssh: Annotated[str, AfterValidator(_place)] | None = Field(
        default=None, description="[user@]host[:port], or an alias of ~/.ssh/config; default: the name."
    )
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\$?$")] | None = Field(
        default=None, description="Who to log in as, unless `ssh` says."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description="Where sshd listens.")
    key: Path | None = Field(default=None, description="The private key to log in with, and no other.")
    host_key: Annotated[tuple[Annotated[str, AfterValidator(_key)], ...], BeforeValidator(_keys)] = Field(
        default=(),
        description="The public key, or keys, that the host may show; known_hosts is not asked then.",
    )
    unit: str | None = Field(default=None, description="The systemd unit of its server.")
    groups: tuple[Annotated[str, AfterValidator(_name)], ...] = Field(
        default=(), description="What it belongs to; asked for as @GROUP."
    )
    role: HostRole | None = Field(
        default=None, description="What it does in a cluster; asked for as role:ROLE."
    )
    production: bool = Field(default=False, description="Do people depend on it? Then it is shown in colour.")
    notes: str = Field(
        default="", description="What whoever works on it should know, or the path of a file that says it."
    )

    @property
    def plugin(self) -> str | None:
        """Return ``SCHEME:NAME`` when a plugin says where the host is, such as ``lab:NAME#ID``."""
        return self.ssh if self.ssh is not None and _PLUGIN.fullmatch(self.ssh) else None
