"""The audit of this installation: what was to be done, before it is done, and what came of it.

One file in the state folder, each record sealed with the hash of the one before; copies where the site asks
for them. What changes a host waits until its intent is on the disk and in every required copy, and is refused
where that fails. Reads go on, and the way back of a change as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shlex
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.audit_files import LOCK_S, Chain
from agent.audit_record import Entry, Kind, Place, seal
from agent.audit_scope import scope
from agent.audit_settings import AuditSettings
from agent.audit_sinks import Sink, sinks_of
from tools.contract import Host, Redactor, Result, ToolError
from tools.declared import Effect

if TYPE_CHECKING:
    from agent.config import Settings

_LONG: Final = 300
"""A longer word of a command stands in its record as its digest: mostly a program of our own."""
_LONGEST_TEXT: Final = 2000
AGAIN_S: Final = 5.0
"""After a copy failed, only records that have to be in it try it again within this time."""
_DOWN_LOCK_S: Final = 0.1
"""For how long what only reads waits for another process that did not let go of the audit before."""


class AuditDown(ToolError):
    """Report that the intent of a change could not be recorded, so the change is not begun."""


class Audit:
    """Write the records of one installation."""

    def __init__(self, folder: Path, settings: AuditSettings, redact: Redactor) -> None:
        self.folder = folder
        self._settings = settings
        self._redact = redact
        self._mutex = threading.Lock()
        self._chain: Chain | None = None
        self._sinks: list[Sink] = []
        self._down: dict[str, str] = {}
        self._missed: dict[str, int] = {}
        self._warned: set[str] = set()
        self._again_at: dict[str, float] = {}

    @property
    def installation(self) -> str:
        """Return the random name of this installation; raise `OSError` when it has none and can get none."""
        return self._opened().installation

    def record(self, kind: Kind, *, needed: bool = False, **fields: Any) -> int | None:
        """Write one record and return its number; None when it could not be written.

        A record that is ``needed`` is on the disk and in the required copies when this returns, or
        `AuditDown` is raised.
        """
        entry = self._entry(kind, fields)
        with self._mutex:
            try:
                wait_s = _DOWN_LOCK_S if "main" in self._down and not needed else LOCK_S
                with self._opened(wait_s).locked(wait_s):
                    seq, failed = self._write(entry, durable=needed)
            except OSError as error:
                seq, failed = None, f"{self.folder}: {error.strerror or error}"
                self._goes_down("main", failed)
        if needed and failed and (seq is None or self._settings.required):
            raise AuditDown(
                f"not begun: the audit cannot be written ({failed}); make room or mend it, then try again"
            )
        return seq

    def command(self, host: Host, argv: Sequence[str], effect: Effect, stdin: bytes | None) -> int | None:
        """Record that a command is about to run; raise `AuditDown` for a write that cannot be recorded."""
        within = scope()
        exact = hashlib.sha256("\0".join(argv).encode("utf-8", "surrogateescape"))
        if stdin is not None:
            exact.update(b"\0\0" + stdin)
        return self.record(
            "command_started",
            needed=effect == "write",
            host=host.name,
            host_key=host.key_fingerprint,
            effect=effect,
            what=within.what,
            command=shlex.join(_short(word) for word in argv),
            sha256=exact.hexdigest(),
            change=within.change,
            digest=within.digest,
        )

    def ended(self, intent: int | None, host: Host, effect: Effect, result: Result | str) -> None:
        """Record how a command ended."""
        if isinstance(result, str):
            self.record("command_ended", of=intent, host=host.name, effect=effect, outcome=result)
            return
        self.record(
            "command_ended",
            of=intent,
            host=host.name,
            effect=effect,
            outcome=result.outcome,
            exit_code=result.exit_code,
            duration_s=round(result.duration_s, 3),
            detail=result.detail,
        )

    def close(self) -> None:
        """Close the files."""
        for sink in self._sinks:
            sink.close()
        if self._chain is not None:
            self._chain.close()
            self._chain = None

    def _opened(self, wait_s: float = LOCK_S) -> Chain:
        if self._chain is None:
            self._chain = Chain(self.folder, wait_s)
            self._sinks = sinks_of(self._settings, self.folder, self._chain.installation)
        return self._chain

    def _entry(self, kind: Kind, fields: dict[str, Any]) -> Entry:
        """Return a record's content, with secrets masked and nothing in it that is long."""
        for name in ("what", "command", "detail"):
            if text := fields.get(name):
                clean = self._redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")
                fields[name] = clean if len(clean) <= _LONGEST_TEXT else f"{clean[:_LONGEST_TEXT]}..."
        fields.setdefault("thread", scope().thread)
        return Entry(kind=kind, who=_who(os.getuid()), pid=os.getpid(), **fields)

    def _write(self, entry: Entry, *, durable: bool) -> tuple[int, str]:
        """Append to the chain, then to the copies; return the number and what failed of the copies."""
        chain = self._opened()
        if chain.torn or chain.lost:  # told in the file that holds it, before that is set aside
            digest = hashlib.sha256(chain.torn).hexdigest() if chain.torn else None
            kind: Kind = "records_lost" if chain.lost else "torn_line"
            said = chain.lost or f"{len(chain.torn)} bytes"
            self._append(Entry(kind=kind, sha256=digest, detail=said), durable=False)
        if chain.size() >= self._settings.max_bytes:
            chain.rotate(chain.first_seq())
        seq, line = self._append(entry, durable=durable)
        failed = ""
        for sink in self._sinks:
            failed = self._copy(sink, seq, line, durable=durable) or failed
        if "main" in self._down:
            self._comes_back("main")
        return seq, failed

    def _append(self, entry: Entry, *, durable: bool) -> tuple[int, bytes]:
        chain = self._opened()
        seq = chain.tip.seq + 1
        place = Place(seq=seq, at=datetime.now(UTC), installation=chain.installation, prev=chain.tip.hash)
        line, digest = seal(place, entry)
        chain.append(line, digest, durable=durable)
        return seq, line

    def _copy(self, sink: Sink, seq: int, line: bytes, *, durable: bool) -> str:
        if not durable and time.monotonic() < self._again_at.get(sink.name, 0.0):
            self._missed[sink.name] += 1
            return self._down[sink.name]
        try:
            sink.write(seq, line, durable=durable)
        except OSError as error:
            failed = f"{sink.name}: {error.strerror or error}"
            self._again_at[sink.name] = time.monotonic() + AGAIN_S
            if self._goes_down(sink.name, failed):
                self._append(Entry(kind="sink_down", detail=failed), durable=False)
            return failed
        if sink.name in self._down:
            self._comes_back(sink.name)
        return ""

    def _goes_down(self, name: str, why: str) -> bool:
        """Count a record that was missed; return True for the first of an outage, warn once in all."""
        self._missed[name] = self._missed.get(name, 0) + 1
        if name in self._down:
            return False
        self._down[name] = why
        if name in self._warned:
            return True
        self._warned.add(name)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(
                f"leadline: the audit cannot be written ({why}); reads go on, changes are refused\n"
            )
        return True

    def _comes_back(self, name: str) -> None:
        missed = self._missed.pop(name, 0)
        self._again_at.pop(name, None)
        why = self._down.pop(name)
        place = self.folder if name == "main" else name
        self._append(Entry(kind="sink_back", detail=f"{place}: missed {missed} ({why})"), durable=False)


class NoAudit(Audit):
    """Keep nothing: for a replay, which touches no host."""

    def __init__(self) -> None:
        super().__init__(Path(), AuditSettings(), lambda data: data)

    def record(self, kind: Kind, *, needed: bool = False, **fields: Any) -> int | None:
        """Write nothing."""
        return None


_AUDITS: dict[tuple[int, Path, str], Audit] = {}


def audit_of(settings: Settings) -> Audit:
    """Return the audit of an installation; one in a process, however many ask."""
    from agent.own_secrets import masking

    key = (os.getpid(), settings.state_dir, settings.audit.model_dump_json())
    if key not in _AUDITS:
        _AUDITS[key] = Audit(settings.state_dir / "audit", settings.audit, masking(settings))
    return _AUDITS[key]


def _short(word: str) -> str:
    if len(word) <= _LONG:
        return word
    digest = hashlib.sha256(word.encode("utf-8", "surrogateescape")).hexdigest()
    return f"<{len(word)} characters, sha256 {digest[:16]}>"


@lru_cache
def _who(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
