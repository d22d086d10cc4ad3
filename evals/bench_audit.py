"""Measure what a record of the audit costs: for a read without waiting for the disk, and for a write."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from agent.audit import Audit
from agent.audit_settings import AuditSettings
from agent.audit_verify import verify
from tools.contract import Host
from tools.local import LocalHost
from tools.redact import redact

LIMIT_MS = 1.0
_READS = 2000
_WRITES = 50
_SCRIPT = "for one in /proc/[0-9]*; do cat $one/stat; done\n" * 200


def _timed(audit: Audit, host: Host, effect: str, rounds: int) -> list[float]:
    spent = []
    argv = ["sh", "-c", _SCRIPT, "facts", "--model", "/models/kimi-k26", "--port", "30000"]
    for number in range(rounds):
        began = time.perf_counter()
        audit.command(host, [*argv, str(number)], "write" if effect == "write" else "read", None)
        spent.append((time.perf_counter() - began) * 1000)
    return spent


def measure() -> tuple[float, float, float, float]:
    """Return what a read costs (median, 99th percentile), a write, and verifying one record."""
    with tempfile.TemporaryDirectory() as name:
        audit = Audit(Path(name) / "audit", AuditSettings(), redact)
        host = LocalHost("gpu1")
        _timed(audit, host, "read", 50)
        reads = _timed(audit, host, "read", _READS)
        writes = _timed(audit, host, "write", _WRITES)
        began = time.perf_counter()
        found = verify(audit.folder)
        checked = (time.perf_counter() - began) * 1000 / found.records
        if found.problem:
            raise RuntimeError(found.problem)
    return (
        statistics.median(reads),
        statistics.quantiles(reads, n=100)[98],
        statistics.median(writes),
        checked,
    )


def main() -> int:
    """Print one line; return 1 when a record without waiting takes longer than the limit."""
    read, slowest, write, checked = measure()
    sys.stdout.write(
        f"audit: a record {read:.3f} ms (99 % under {slowest:.3f}, limit {LIMIT_MS:g} for the median), "
        f"on the disk {write:.3f} ms, verified {checked:.3f} ms\n"
    )
    return 0 if read <= LIMIT_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
