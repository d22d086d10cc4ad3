"""Compare the files of an installed package with its wheel's RECORD, by one listing of the host."""

from __future__ import annotations

import base64
import csv
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tools.contract import Host
from tools.settings.locate import Location

_LIMIT_S: Final = 40.0
_MAX_UNPACKED: Final = 16 << 20
_MAX_FILES: Final = 20_000
_SCRIPT: Final = """
LC_ALL=C
export LC_ALL
pack() { if command -v gzip >/dev/null 2>&1; then gzip -c; else cat; fi; }
{
  head -c 8388608 "$1/RECORD" 2>/dev/null || echo '!record'
  printf '\\n==\\n'
  command -v sha256sum >/dev/null 2>&1 || echo '!sha256sum'
  cd "$2" 2>/dev/null && find . -name __pycache__ -prune -o -type f -name '*.py' -print 2>/dev/null |
    head -n 20000 | tr '\\n' '\\0' | xargs -0 sha256sum 2>/dev/null
  printf '==\\n'
  find . -name __pycache__ -prune -o -type f -name '*.py' -newermt "@$3" -print 2>/dev/null | head -n 200
} | pack
"""


@dataclass(frozen=True, slots=True)
class Patched:
    """Hold how an installed package differs from what was published; empty lists where it does not."""

    checked: int = 0
    """Files compared."""
    changed: tuple[str, ...] = ()
    """Files with another content than RECORD names."""
    added: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    """Files written after the process started: it may run other code than stands there now."""
    problem: str = ""
    """Why that could not be compared."""

    @property
    def differs(self) -> bool:
        """Tell whether the package is not what was published."""
        return bool(self.changed or self.added or self.missing)


async def compare(host: Host, location: Location) -> Patched:
    """Compare every Python file of the package with RECORD; never raise, say why it could not be done."""
    if location.editable or not location.info:
        return Patched(problem="an editable install or a checkout: no RECORD tells its files")
    words = [location.root + location.info, location.root + location.package, f"{location.started_at:.0f}"]
    result = await host.exec(
        ["sh", "-c", _SCRIPT, "patched", *words], timeout_s=_LIMIT_S, max_bytes=8 << 20, retry=True
    )
    if result.outcome != "exited" or result.truncated:
        return Patched(problem=f"the listing did not come: {result.outcome} {result.detail}".rstrip())
    return judge(_text(result.stdout.data), location.package.rpartition("/")[2])


def judge(text: str, package: str) -> Patched:
    """Compare a RECORD with a listing of ``sha256sum``, both as the host sent them."""
    record, _, rest = text.partition("\n==\n")
    listing, _, newer = rest.partition("==\n")
    later = tuple(line.removeprefix("./") for line in newer.splitlines() if line.startswith("./"))
    if record.startswith("!record") or not record.strip():
        return Patched(newer=later, problem="its .dist-info has no RECORD that may be read")
    if "!sha256sum" in listing:
        return Patched(newer=later, problem="the host has no sha256sum")
    published = dict(_published(record, package + "/"))
    here = {name[2:]: digest for digest, name in _listed(listing)}
    if len(here) >= _MAX_FILES:
        return Patched(newer=later, problem=f"over {_MAX_FILES} Python files: not compared")
    return Patched(
        checked=len(here.keys() & published.keys()),
        changed=tuple(sorted(n for n in here.keys() & published.keys() if here[n] != published[n])),
        added=tuple(sorted(here.keys() - published.keys())),
        missing=tuple(sorted(published.keys() - here.keys())),
        newer=later,
    )


def _published(record: str, package: str) -> Iterator[tuple[str, str]]:
    """Yield path below the package and sha256 in hex of every Python file that RECORD names."""
    for row in csv.reader(io.StringIO(record)):
        if len(row) < 2 or not row[0].startswith(package) or not row[0].endswith(".py"):
            continue
        name, _, digest = row[1].partition("=")
        if name == "sha256":
            try:
                yield row[0].removeprefix(package), base64.urlsafe_b64decode(digest + "==").hex()
            except ValueError:
                continue


def _listed(listing: str) -> Iterator[tuple[str, str]]:
    for line in listing.splitlines():
        digest, spaces, name = line.partition("  ")
        if spaces and len(digest) == 64 and name.startswith("./"):
            yield digest, name


def _text(output: bytes) -> str:
    if output[:2] == b"\x1f\x8b":
        unpacking = zlib.decompressobj(wbits=31)
        try:
            output = unpacking.decompress(output, _MAX_UNPACKED)
        except zlib.error:
            output = b""
    return output.decode("utf-8", "replace")
