"""The hosts that the settings name: found by name, group or role; a word that is none of them is told."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from agent.errors import UsageError
from agent.inventory_settings import HostEntry, HostRole
from agent.ssh_aliases import ssh_aliases
from tools.host import HostTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.config import Settings

ALL = "all"
LOCAL = "local"
GROUP = "@"
ROLE = "role:"
_ROLES: tuple[HostRole, ...] = get_args(HostRole)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Hold the hosts of the settings by name; a group or a role stands for several of them."""

    entries: Mapping[str, HostEntry]
    ssh_config: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> Inventory:
        """Return the inventory of these settings."""
        return cls(settings.hosts, settings.ssh_config)

    @property
    def groups(self) -> dict[str, list[str]]:
        """Return the hosts of every group, both in the order of the settings."""
        found: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            for group in dict.fromkeys(entry.groups):
                found.setdefault(group, []).append(name)
        return found

    @property
    def roles(self) -> dict[HostRole, list[str]]:
        """Return the hosts of every role that some host has."""
        found: dict[HostRole, list[str]] = {}
        for name, entry in self.entries.items():
            if entry.role is not None:
                found.setdefault(entry.role, []).append(name)
        return found

    def get(self, name: str) -> HostEntry | None:
        """Return the entry of a name; None when the inventory does not have it."""
        return self.entries.get(name)

    def is_production(self, name: str) -> bool:
        """Tell whether the inventory says that people depend on a host."""
        entry = self.entries.get(name)
        return entry is not None and entry.production

    def select(self, words: str | Sequence[str]) -> list[str]:
        """Return the hosts that a person named, each once, in order; raise `UsageError` that names a typo.

        Words are names, ``@GROUP``, ``role:ROLE`` and ``all``, in a list or with commas between them. A
        name that the inventory does not have is taken as an SSH alias or address, as it is written.
        """
        parts = (
            words.split(",")
            if isinstance(words, str)
            else [part for word in words for part in word.split(",")]
        )
        named = [part.strip() for part in parts if part.strip()]
        if not named:
            raise UsageError("no host is named", do="name one, or several with commas between them")
        return list(dict.fromkeys(host for word in named for host in self._hosts_of(word)))

    def select_known(self, words: str | Sequence[str]) -> list[str]:
        """Return the same for words that come from outside: hosts of the inventory alone count."""
        found = self.select(words)
        for name in found:
            self._known(name)
        return found

    def target(self, name: str) -> HostTarget | None:
        """Return where a host of the inventory is, for a person; None when a plugin or nobody here knows."""
        entry = self.entries.get(name)
        return _target(name, entry, by_itself=False) if entry is not None and entry.plugin is None else None

    def for_service(self, name: str) -> HostTarget:
        """Return where a host is, for a service that works alone: only what the inventory says counts.

        Nothing of a person's ``~/.ssh/config`` is read (no ProxyCommand, no Match exec), and the host's key
        must be pinned; raise `UsageError` otherwise.
        """
        entry = self._known(name)
        if entry.plugin is not None:
            raise UsageError(
                f"host {name} is {entry.plugin}, which a plugin has to say", do="resolve it there"
            )
        target = _target(name, entry, by_itself=True)
        if target.address != "local" and not entry.host_key:
            raise UsageError(
                f"host {name} has no host_key under [hosts.{name}], so a service may not log in there",
                do=f"ask who runs it for its public key and write it there{self._files()}",
            )
        return target

    def _hosts_of(self, word: str) -> list[str]:
        if word == ALL:
            return self._all()
        if word.startswith(GROUP):
            return self._of_group(word)
        if word.startswith(ROLE):
            return self._of_role(word)
        if word not in self.entries:
            self._refuse_typo(word)
        return [word]

    def _all(self) -> list[str]:
        if not self.entries:
            raise UsageError(
                "`all` means the hosts of the settings, and they name none", do="write [hosts.NAME]"
            )
        return list(self.entries)

    def _of_group(self, word: str) -> list[str]:
        groups = self.groups
        found = groups.get(word.removeprefix(GROUP))
        if found is None:
            raise UsageError(
                f"no host is in a group {word}{self._files()}",
                do=_nearest([GROUP + name for name in groups], word, "groups are"),
            )
        return found

    def _of_role(self, word: str) -> list[str]:
        role = word.removeprefix(ROLE)
        found = next((hosts for name, hosts in self.roles.items() if name == role), None)
        if found is not None:
            return found
        if role in _ROLES:
            raise UsageError(
                f"no host has role {role}{self._files()}", do="give one that role, or name hosts"
            )
        raise UsageError(
            f"there is no role {role!r}", do=_nearest([ROLE + one for one in _ROLES], word, "roles are")
        )

    def _refuse_typo(self, word: str) -> None:
        """Refuse a bare word that is nearly a name of ours, and that SSH has no alias for."""
        if not word.replace("-", "").replace("_", "").isalnum() or word == LOCAL:
            return
        near = difflib.get_close_matches(word, self.entries, cutoff=0.6)
        if sorted(word) == sorted(LOCAL) or difflib.get_close_matches(word, [LOCAL], cutoff=0.85):
            near.append(LOCAL)
        if near and word not in ssh_aliases(self.ssh_config):
            raise UsageError(
                f"no host {word}{self._files()}; nearest: {', '.join(near)}",
                do=f"for another machine write its whole address, or USER@{word}",
            )

    def _known(self, name: str) -> HostEntry:
        entry = self.entries.get(name)
        if entry is None:
            raise UsageError(
                f"no host {name!r} in the inventory{self._files()}",
                do=_nearest(list(self.entries), name, "hosts are"),
            )
        return entry

    def _files(self) -> str:
        from agent.config import files_with

        files = files_with("hosts")
        return f" ({', '.join(map(str, files))})" if files else ""


def _target(name: str, entry: HostEntry, *, by_itself: bool) -> HostTarget:
    """Return where a host is; ``by_itself`` leaves a person's ssh_config and known_hosts unread."""
    named = HostTarget.parse(entry.ssh or name)
    return HostTarget(
        name=name,
        address=named.address,
        port=named.port or entry.port,
        user=named.user or entry.user,
        key_path=entry.key.expanduser() if entry.key is not None else None,
        host_keys=entry.host_key,
        own_config=not by_itself,
    )


def _nearest(names: list[str], word: str, introduced: str) -> str:
    """Return what a person may have meant, the nearest first."""
    if not names:
        return "write it under [hosts.NAME] of a settings file"
    near = difflib.get_close_matches(word, names, n=3, cutoff=0.5)
    if near:
        return f"nearest: {', '.join(near)}"
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"{introduced}: {shown}"
