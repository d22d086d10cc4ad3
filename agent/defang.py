"""Make addresses of foreign hosts in text that goes to people no addresses any more.

A chat that finds a link in a message fetches it to show a preview, and so carries what stands in the link to
whoever runs that host. ``https://evil.example/x`` is therefore written ``https[:]//evil[.]example/x``: it can
be read and put together again by a person, and no program takes it for a link.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from typing import Final

_HOST: Final = (
    r"(?:[\w-]+\.)+[^\W\d_][\w-]*|(?:\d{1,3}\.){3}\d{1,3}|\[[0-9A-Fa-f:.]+\]|0x[0-9A-Fa-f]+|\d{8,10}"
)
# From the colon on: what stands before the scheme may be a letter to us, and none to who makes links of it.
_URL: Final = re.compile(rf"(?i)(?<=[a-z0-9+.-])(:)(//+)((?:[^\s/@<>\"']*@)?)({_HOST})(?![\w-])")
_ANY: Final = re.compile(r"(?i)(?<=[a-z0-9+.-]):([/\\]{2,})([^\s/\\?#<>\"'|]+)")
_ONE_NAME: Final = re.compile(r"(?a)[$\w{}-]*[$A-Za-z{_][$\w{}-]*")
"""A host without a dot, or a place to write one: nothing outside the site has such a name."""
_BARE_SLASHES: Final = re.compile(rf"(?<![:\w/\]])(//)({_HOST})(?=[/:?#])")
_MAIL: Final = re.compile(rf"(?<=[\w.+-])(@)({_HOST})(?![\w-])")
_MAILTO: Final = re.compile(r"(?i)(?<![a-z0-9])(mailto|xmpp|tel|sms)(:)(?=\S)")
_TOPS: Final = (
    "com|net|org|info|biz|io|dev|app|ai|co|me|xyz|site|online|top|club|shop|live|link|click|page|cloud|tech|cc|tv|to"
    "|ru|cn|de|uk|fr|nl|eu|us|in|jp|br|it|pl|es|ch|se|no|fi|ca|au|example|test|gg|ly|gl|icu|work|space|website|onion"
)
_BARE: Final = re.compile(
    rf"(?i)((?<![\w.@/-])(?:[\w-]+\.)+(?:{_TOPS})|(?<![^\W_])(?<![.@/-])www\.(?:[\w-]+\.)*[\w-]+)"
    r"(?!_*[^\W_]|-|\.\w|\()"
)


def defang(text: str, ours: Collection[str] = ()) -> str:
    """Return ``text`` without addresses of hosts that are neither on this machine, private, nor ``ours``."""
    known = {name.lower() for name in ours}

    def url(match: re.Match[str]) -> str:
        colon, slashes, user, host = match.groups()
        if _is_ours(host, known):
            return match.group()
        return f"[{colon}]{slashes}{user.replace('@', '[@]')}{_dotted(host)}"

    def named(match: re.Match[str]) -> str:
        return match.group() if _is_ours(match[2], known) else f"[{match[1]}]{_dotted(match[2])}"

    def bare(match: re.Match[str]) -> str:
        return match.group() if _is_ours(match[1], known) else _dotted(match[1])

    def odd(match: re.Match[str]) -> str:
        """Break an address whose host a browser reads in its own way: octal, 1.2, other dots, %2e."""
        slashes, authority = match.groups()
        host = authority.rpartition("@")[2]
        names = (host, re.sub(r":[0-9]*$", "", host))
        if any(_is_ours(name, known) or _ONE_NAME.fullmatch(name) for name in names):
            return match.group()
        return f"[:]{slashes}{authority.replace('@', '[@]')}"

    text = _ANY.sub(odd, _URL.sub(url, text))
    text = _BARE_SLASHES.sub(lambda match: named(match).replace("[//]", "/[/]"), text)
    text = _MAIL.sub(named, text)
    text = _MAILTO.sub(r"\1[\2]", text)
    return _BARE.sub(bare, text)


def _dotted(host: str) -> str:
    if "." not in host:
        return f"[{host.strip('[]')}]"
    return host.replace(".", "[.]")


def _is_ours(host: str, known: Collection[str]) -> bool:
    """Tell whether a host is named by the caller, or an address of this machine or of a private network."""
    name = host.lower().strip("[]")
    if name in known or name == "localhost" or name.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_private or address.is_loopback
