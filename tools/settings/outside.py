"""Read files of a host that lie outside the package, as an engine would: a model's ``config.json``."""

from __future__ import annotations

import asyncio
import posixpath
import uuid
from collections.abc import Sequence
from typing import Final

from tools.contract import Host
from tools.policy_paths import read_denied
from tools.settings.locate import Location

_MAX: Final = 8 << 20
_MOST_LISTED: Final = 65_000
"""Characters of a listing from which on it may be cut."""
_SCRIPT: Final = """
LC_ALL=C
export LC_ALL
M=@@$1 ROOT=$2 FILE=$3
real=$(readlink -f "$ROOT$FILE" 2>/dev/null)
if [ -n "$ROOT" ] && [ "$real" != "$(readlink -f "$ROOT")$FILE" ] && [ "$real" != "$ROOT$FILE" ]; then
  [ -e "$ROOT$FILE" ] && { echo "$M link"; exit 0; }
fi
printf '%s real %s\\n' "$M" "$real"
if [ ! -e "$ROOT$FILE" ]; then
  folder=${FILE%/*}
  if [ -d "$ROOT$folder" ] && [ -x "$ROOT$folder" ]; then echo "$M absent"; else echo "$M unknown"; fi
elif [ -d "$ROOT$FILE" ]; then echo "$M folder"
elif [ ! -f "$ROOT$FILE" ] || [ ! -r "$ROOT$FILE" ]; then echo "$M closed"
else printf '%s data\\n' "$M"; head -c 8388609 "$ROOT$FILE"
fi
"""


class OutsideFiles:
    """Answer `HostFacts.read_file` for a process: None for what is absent, `OSError` where it cannot be told.

    A folder raises `IsADirectoryError`.
    """

    def __init__(self, host: Host, location: Location) -> None:
        self._host = host
        self._location = location
        self._loop = asyncio.get_running_loop()
        self._known: dict[str, bytes | None] = {}
        self._listing = frozenset(location.records.get("model_files", "").splitlines())

    def __call__(self, path: str) -> bytes | None:
        """Return a file's bytes; to be called in a thread beside the event loop."""
        place = self._place(path)
        if place not in self._known:
            self._known[place] = self._told(place)
        return self._known[place]

    def names(self, path: str) -> Sequence[str]:
        """Name what lies in the model's folder; raise `OSError` where that is not known."""
        folder = self._location.records.get("model_folder")
        if not folder or not self._listing or self._place(path) != posixpath.normpath(folder):
            raise OSError(f"what lies in {path} is not known")
        if len(self._location.records.get("model_files", "")) >= _MOST_LISTED:
            raise OSError(f"{path} holds too many files")
        return sorted(self._listing)

    def _place(self, path: str) -> str:
        """Return the absolute path that the process means; a hub's name is looked up in its cache."""
        location = self._location
        model, folder = location.records.get("model", ""), location.records.get("model_folder", "")
        if model and folder and (path == model or path.startswith(model.rstrip("/") + "/")):
            path = folder + path[len(model.rstrip("/")) :]
        elif not path.startswith("/"):
            if not location.process.cwd:
                raise OSError(f"{path}: the working directory of the process is not known")
            path = f"{location.process.cwd}/{path}"
        return posixpath.normpath(path)

    def _told(self, place: str) -> bytes | None:
        records = self._location.records
        folder, _, name = place.rpartition("/")
        if place == posixpath.normpath(records.get("model_folder") or "/nowhere"):
            raise IsADirectoryError(place)
        if folder == posixpath.normpath(records.get("model_folder") or "/nowhere"):
            if (text := records.get(f"model:{name}")) is not None:
                return text.encode()
            if self._listing and name not in self._listing:
                return None
        if reason := read_denied(place):
            raise OSError(reason)
        return asyncio.run_coroutine_threadsafe(self._asked(place), self._loop).result()

    async def _asked(self, place: str) -> bytes | None:
        mark = uuid.uuid4().hex
        argv = ["sh", "-c", _SCRIPT, "outside", mark, self._location.root, place]
        result = await self._host.exec(argv, timeout_s=15.0, max_bytes=_MAX + (1 << 16), retry=True)
        if not result.ok:
            raise OSError(f"{place}: {result.outcome} {result.detail}".rstrip())
        head, found, data = result.stdout.data.partition(f"@@{mark} data\n".encode())
        rows = [line.split(" ", 2) for line in head.decode("utf-8", "replace").splitlines()]
        real = next((row[2] for row in rows if len(row) == 3 and row[1] == "real"), place)
        if reason := read_denied(real.removeprefix(self._location.root)):
            raise OSError(reason)
        if found and len(data) <= _MAX:
            return data
        if any(row[1:] == ["absent"] for row in rows):
            return None
        if any(row[1:] == ["folder"] for row in rows):
            raise IsADirectoryError(place)
        raise OSError(f"{place} may not be read by this account, or is too large")
