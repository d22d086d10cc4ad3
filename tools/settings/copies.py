"""Know under which other names a file keeps a setting: ``self.pp_size = server_args.pp_size``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from tools.settings.reach import Profile


def kept_as(profile: Profile, data: bytes) -> Mapping[str, str]:
    """Return the attributes of ``self`` that only ever get one setting's value in a file, with its name."""
    return _kept_as(tuple(sorted(profile.names)), tuple(sorted(profile.calls)), data)


@lru_cache(maxsize=1024)
def _kept_as(names: tuple[str, ...], calls: tuple[str, ...], data: bytes) -> Mapping[str, str]:
    holder = rf"(?:(?:\w+\.)*(?:{'|'.join(names)})|(?:{'|'.join(calls) or 'none'})\(\))"
    pattern = rf"^[ \t]*self\.(\w+)(?:: *[\w.\[\]]+)? = {holder}\.(\w+)[ \t]*(?:#.*)?$"
    found = {m[1].decode(): m[2].decode() for m in re.finditer(pattern.encode(), data, re.MULTILINE)}
    kept = {}
    for attribute, setting in found.items():
        writes = re.findall(
            rb"\b" + attribute.encode() + rb"(?:: *[^=\n]+)?[ \t]*(?:[-+*/|&]|//)?=(?!=)", data
        )
        if len(writes) == 1:
            kept[attribute] = setting
    return kept
