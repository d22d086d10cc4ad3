"""Replace what tells whose machine it was, always the same way: hosts, accounts, addresses, homes.

Where a name stands is learned from the outputs that always hold it (the host's own name, the owner of a
process, the prefix of journal lines); then it is replaced wherever it stands as a word of its own.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Final

from tools.redact import redact

HOME: Final = "/home/lab"
"""Home of the one account that a lab host has."""
_ORDINARY: Final = frozenset(
    re.findall(
        r"\S+",
        """localhost local host server node gpu cpu cuda python sglang vllm ollama llama model engine kernel
        systemd test lab debian ubuntu linux default main worker master head router proxy api web""",
    )
)
"""Host names that are plain words of this trade: replaced only where a host's name must stand."""
_SERVICE: Final = frozenset(
    re.findall(
        r"\S+",
        """root lab nobody daemon bin sys adm nogroup sglang vllm ollama llama nvidia www-data systemd-journal
        systemd-network messagebus ubuntu debian users wheel sudo docker video render staff service svc""",
    )
)
"""Accounts that belong to software, not to a person."""
_NEUTRAL: Final = re.compile(r"(?:host|user)-\d+")
_WORD: Final = rb"(?:(?<![A-Za-z0-9_])|(?<=\\[ntr]))"
"""A word begins here; the letter of an escape in JSON text is not of it."""
_END: Final = rb"(?![A-Za-z0-9_])"
_DOMAIN: Final = rb"(?:\.(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}|\.(?:lan|local|internal|localdomain|home|corp))?"
_HOMES: Final = re.compile(rb"/(?:home|Users)/([A-Za-z0-9_][A-Za-z0-9_.-]*)")
_PREFIX: Final = re.compile(rb"(?m)^\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:?\d\d (\S+) [^\s:]+:")
_OWN_NAME: Final = re.compile(rb"(?m)^(?:hostname=|Static hostname: *)(\S+)$")
_OWNER: Final = re.compile(rb"(?m)^owner=\S+ +\d+ (\S+) (\S+) ")
_ID: Final = re.compile(rb"\b(?:uid|gid|groups|User|Group)=(?:\d+\()?([A-Za-z_][A-Za-z0-9_.-]*)")
_IPV4: Final = re.compile(rb"(?<![\w.=_-])(?<!ersion )(?<!ersion: )\d{1,3}(?:\.\d{1,3}){3}(?![\w.]|-\d)")
_IPV4_SET: Final = re.compile(rb"(?<==)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_LISTED: Final = re.compile(rb"(?m)^[A-Za-z][\w.+-]{0,99}[ \t]{1,60}(?:\d{1,3}\.){3}\d{1,3}[ \t]*$")
"""A line of a list of packages, whose last column is a version and no address."""
_IPV6: Final = re.compile(
    rb"(?i)(?<![\w:])(?:fe[89ab][0-9a-f]|f[cd][0-9a-f]{2}|[23][0-9a-f]{3}):[0-9a-f:]{1,40}(?![\w:])"
)
_HEX: Final = re.compile(rb"(?<![0-9A-Fa-f])([0-9A-F]{32}|[0-9A-F]{8})(?=:[0-9A-F]{4}\b)")
"""An address as /proc/net/tcp prints it."""
_MAC: Final = re.compile(rb"(?i)(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])")
_GPU: Final = "GPU-{:08d}-0000-0000-0000-000000000000"
_UUID: Final = re.compile(rb"(?i)\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_AT: Final = re.compile(rb"(?i)(?<![\w/@.])[a-z_][\w.+-]{0,63}@[a-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}")
"""An account at a host, or a mail address."""
_MACHINES: Final = re.compile(rb"(?i)(?<=://)[a-z][a-z0-9-]*(?=[:/]\d*)")
"""A host's bare name in a URL; public ones have a dot."""


@dataclass(slots=True)
class Neutral:
    """Hold which name became which; ``text`` and ``clean`` replace them."""

    hosts: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    """Addresses and identifiers, as they are met."""
    keep_hosts: bool = False
    """True for a lab, whose host's name is nobody's."""
    _names: re.Pattern[bytes] | None = None

    def host(self, name: str, same_as: str | None = None) -> str:
        """Learn a host's name, or another name of one, and return the neutral one."""
        if self.keep_hosts or name in ("local", "localhost", "") or _NEUTRAL.fullmatch(name):
            return name
        bare = name.rpartition("@")[2].split(":")[0]
        known = self.hosts.get(same_as or bare) or self.hosts.get(bare)
        new = known or f"host-{len(set(self.hosts.values())) + 1}"
        for one in (name, bare, bare if _is_address(bare) else bare.split(".")[0]):
            self.hosts.setdefault(one, new)
        if "@" in name:
            self.user(name.rpartition("@")[0])
        self._names = None
        return new

    def user(self, name: str) -> str:
        """Learn an account and return its neutral name; accounts of software keep theirs."""
        if not name or name in _SERVICE or name.startswith("systemd-") or name.isdigit():
            return name
        if _NEUTRAL.fullmatch(name):
            return name
        self._names = None
        return self.users.setdefault(name, f"user-{len(self.users) + 1}")

    def learn(self, data: bytes, host: str | None = None) -> None:
        """Learn the names that an output is known to hold; ``host`` is where it came from."""
        for pattern in (_OWN_NAME, _PREFIX):
            for name in dict.fromkeys(match[1] for match in pattern.finditer(data)):
                self.host(name.decode("utf-8", "replace"), same_as=host)
        for match in [*_OWNER.finditer(data), *_ID.finditer(data), *_HOMES.finditer(data)]:
            for group in match.groups():
                self.user(group.decode("utf-8", "replace").rstrip("."))

    def clean(self, data: bytes) -> bytes:
        """Return data redacted and with neutral names; the number of lines stays the same."""
        data = redact(data)
        data = _HOMES.sub(lambda match: self._home(match[1]), data)
        data = _AT.sub(lambda match: self._account_at(match[0]), data)
        if not self.keep_hosts:
            data = _MACHINES.sub(lambda match: self._machine(match[0]), data)
            data = _PREFIX.sub(lambda match: self._in_place(match), data)
            data = _OWN_NAME.sub(lambda match: self._in_place(match), data)
            data = self._addresses(data)
        if (pattern := self._pattern()) is not None:
            data = pattern.sub(lambda match: self._name(match), data)
        return _UUID.sub(lambda match: self._counted("gpu", match[0], _GPU), data)

    def text(self, text: str) -> str:
        """Return text redacted and with neutral names."""
        return self.clean(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def _home(self, name: bytes) -> bytes:
        new = self.user(name.decode("utf-8", "replace"))
        return f"/home/{new}".encode()

    def _account_at(self, found: bytes) -> bytes:
        user, _, host = found.decode("utf-8", "replace").partition("@")
        if self.keep_hosts or user.endswith("git") or re.fullmatch(r"\d+(\.\d+)*", host):
            return found
        if re.search(r"\.(service|target|socket|timer|slice)$", host):
            return found  # an instance of a systemd unit
        return f"{self.user(user)}@{self.hosts.get(host) or self.host(host)}".encode()

    def _machine(self, name: bytes) -> bytes:
        text = name.decode()
        return name if text in _ORDINARY else (self.hosts.get(text) or self.host(text)).encode()

    def _in_place(self, match: re.Match[bytes]) -> bytes:
        """Return a match with the host's name in its group replaced, whatever word it is."""
        new = self.hosts.get(match[1].decode("utf-8", "replace"))
        if new is None:
            return match[0]
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        return match[0][:start] + new.encode() + match[0][end:]

    def _addresses(self, data: bytes) -> bytes:
        listed = [match.span() for match in _LISTED.finditer(data)]
        for pattern in (_IPV4, _IPV4_SET):
            data = pattern.sub(
                lambda match: match[0] if _within(match.start(), listed) else self._address(match[0]), data
            )
        data = _IPV6.sub(lambda match: self._address(match[0]), data)
        data = _HEX.sub(lambda match: self._hex(match[0]), data)
        return _MAC.sub(lambda match: self._counted("mac", match[0].lower(), "02:00:00:00:00:{:02x}"), data)

    def _address(self, found: bytes) -> bytes:
        try:
            address = ipaddress.ip_address(found.decode())
        except ValueError:
            return found
        if address.is_loopback or address.is_unspecified or found in (b"255.255.255.255", b"224.0.0.1"):
            return found
        if address in ipaddress.ip_network("192.0.2.0/24") or str(address).startswith("2001:db8:"):
            return found
        form = "192.0.2.{}" if address.version == 4 else "2001:db8::{:x}"
        return self._counted(f"ip{address.version}", str(address).encode(), form)

    def _hex(self, found: bytes) -> bytes:
        """Return an address of /proc/net/tcp, each word of it in the byte order of the host, made neutral."""
        raw = bytes.fromhex(found.decode())
        turned = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
        address = str(ipaddress.ip_address(turned)).encode()
        new = self._address(address)
        if new == address:
            return found
        packed = ipaddress.ip_address(new.decode()).packed
        return b"".join(packed[at : at + 4][::-1] for at in range(0, len(packed), 4)).hex().upper().encode()

    def _counted(self, kind: str, found: bytes, form: str) -> bytes:
        """Return the neutral form of the nth different thing of a kind."""
        key = f"{kind} {found.decode()}"
        if key not in self.seen:
            count = sum(name.startswith(f"{kind} ") for name in self.seen) + 1
            self.seen[key] = form.format(count % 255 or 255)
        return self.seen[key].encode()

    def _pattern(self) -> re.Pattern[bytes] | None:
        if self._names is None:
            hosts = sorted((name for name in self.hosts if name not in _ORDINARY), key=len, reverse=True)
            users = sorted((name for name in self.users if len(name) > 2), key=len, reverse=True)
            if not hosts and not users:
                return None
            parts = [b"(?P<host>" + _any(hosts) + b")" + _DOMAIN] if hosts else []
            parts += [b"(?P<user>" + _any(users) + b")"] if users else []
            self._names = re.compile(_WORD + b"(?:" + b"|".join(parts) + b")" + _END)
        return self._names

    def _name(self, match: re.Match[bytes]) -> bytes:
        groups = match.groupdict()
        if groups.get("host"):
            return self.hosts[groups["host"].decode()].encode()
        return self.users[groups["user"].decode()].encode()


def _any(names: list[str]) -> bytes:
    return b"|".join(re.escape(name.encode()) for name in names)


def _within(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
