"""Measure redaction: speed on log text, planted secrets missed, and lines of real logs falsely masked.

Speed is of processor time, since the machine may do other work beside it. Real logs are those of this machine
and what engines printed in the stored recordings; every masked line in them counts as false, since nothing in
them is a secret, and is printed so that this can be judged.
"""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.redact import redact

LIMIT_MB_S = 5.0
LIMIT_FALSE = 0.005
_LOGS = (
    "/var/log/**/*.log",
    "/var/log/**/*.log.*",
    "/var/log/syslog*",
    "/var/log/messages*",
    "/var/log/apt/*",
)
_MOST = 8 << 20
_RECORDED = Path(__file__).parent.parent / "transcripts" / "artifacts"
_SHOWN = 20
_SOURCES = 1500
_AT = "Nov 29 10:{m:02d}:{s:02d} gpu1 "
_ISO = "2026-11-29T10:{m:02d}:{s:02d}+0000 gpu1 "
_TEMPLATES = (
    _AT + "kernel: [ {n}.{m:02d}] NVRM: Xid (PCI:0000:{x:02x}:00): 31, pid={n}, name=python",
    _AT
    + "sshd[{n}]: Accepted publickey for ops from 10.0.0.{x} port {n} ssh2: ED25519 SHA256:{n:08x}Yk{n:08x}",
    _AT + "systemd[1]: engine.service: Scheduled restart job, restart counter is at {x}.",
    _ISO + "sglang[{n}]: [2026-11-29 10:{m:02d}:{s:02d} TP{x}] Decode batch, #running-req: {x}, #token: {n}, "
    "token usage: 0.{m:02d}, cuda graph: True, gen throughput (token/s): {n}.{s:02d}, #queue-req: 0",
    "INFO 11-29 10:{m:02d}:{s:02d} [loggers.py:{x}] Engine 000: Avg prompt throughput: {n}.{m} tokens/s, "
    "Running: {x} reqs, Waiting: 0 reqs, GPU KV cache usage: {m}.{s}%, Prefix cache hit rate: {s}.{m}%",
    'INFO:     127.0.0.1:{n} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    '{{"ts":"2026-11-29T10:{m:02d}:{s:02d}Z","level":"info","msg":"request done","id":"cmpl-{n:08x}{n:08x}",'
    '"prompt_tokens":{n},"completion_tokens":{x},"finish_reason":"stop","cache_key":null}}',
    "| N/A   {m}C    P0             {n}W /  600W |   {n}MiB /  97887MiB |     {x}%      Default |",
)
_PLANTED = (
    "HF_TOKEN={}",
    "serve --api-key {} --port 1",
    "- --api-key\n- {}",
    "non-default args: {{'api_key': ['{}'], 'port': 1}}",
    "Authorization: Bearer {}",
    "http://user:{}@proxy.example:3128/",
    '"client_secret": "{}"',
    "using hf_{}{}0 to download",
    "machine h.example login bot password {}",
    "sk-proj-{}{}",
)


def log_text(size: int, seed: int = 1) -> bytes:
    """Return log lines of engines, kernel, servers and cards, some ``size`` bytes of them."""
    rng = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        values = {
            "m": rng.randrange(60),
            "s": rng.randrange(60),
            "n": rng.randrange(1000, 99999),
            "x": rng.randrange(1, 99),
        }
        lines.append(rng.choice(_TEMPLATES).format(**values))
        length += len(lines[-1]) + 1
    return "\n".join(lines).encode() + b"\n"


def speed(data: bytes) -> float:
    """Return megabytes a second of processor time, the best of three rounds."""
    spent = []
    for _ in range(3):
        began = time.process_time()
        redact(data)
        spent.append(time.process_time() - began)
    return len(data) / min(spent) / 1e6


def missed(size: int, seed: int = 2) -> tuple[int, int]:
    """Return how many of the secrets planted in a log came through, and how many were planted."""
    rng = random.Random(seed)
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
    values: list[str] = []
    lines = log_text(size, seed).decode().splitlines()
    for place in sorted(rng.sample(range(len(lines)), 500), reverse=True):
        value = (
            "".join(rng.choices(letters, k=7)) + str(rng.randrange(10)) + "".join(rng.choices(letters, k=8))
        )
        template = _PLANTED[len(values) % len(_PLANTED)]
        lines.insert(place, template.format(*[value] * template.count("{}")))
        values.append(value)
    masked = redact("\n".join(lines).encode())
    return sum(value.encode() in masked for value in values), len(values)


def real_logs() -> Iterator[tuple[str, bytes]]:
    """Yield the logs of this machine, and what engines on other hosts printed in the stored recordings."""
    for pattern in _LOGS:
        for path in sorted(Path("/").glob(pattern.removeprefix("/"))):
            if path.is_file() and (data := _read(path)) and b"\0" not in data[:8192]:
                yield str(path), data
    journal = subprocess.run(
        ["sh", "-c", "journalctl --no-pager -o short-iso -n 50000 2>/dev/null"],
        capture_output=True,
        check=False,
    )
    if journal.stdout:
        yield "journal", journal.stdout
    for path in sorted(_RECORDED.iterdir()):
        if b"<masked:" not in (data := path.read_bytes()):
            yield f"recorded {path.name[:12]}", data


def sources() -> Iterator[tuple[str, bytes]]:
    """Yield the source of installed packages: no logs, but what tools of ours show most."""
    for entry in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py"))[:_SOURCES]:
        yield str(entry), entry.read_bytes()


def _read(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                return packed.read(_MOST)
        with path.open("rb") as plain:
            return plain.read(_MOST)
    except OSError:
        return b""


def false_lines(texts: Iterable[tuple[str, bytes]]) -> tuple[int, int, list[str]]:
    """Return how many lines of texts without secrets are masked, of how many, and the first of them."""
    total = 0
    changed: list[str] = []
    for name, data in texts:
        before, after = data.split(b"\n"), redact(data).split(b"\n")
        total += len(before)
        changed += [
            f"{name}: {new[:160].decode(errors='replace')}"
            for old, new in zip(before, after, strict=True)
            if old != new
        ]
    return len(changed), total, changed[:_SHOWN]


def main() -> int:
    """Print the three figures; return 1 when one is past its limit."""
    redact(b"warm")
    data = log_text(8_000_000)
    rate = speed(data)
    lost, planted = missed(2_000_000)
    false, lines, shown = false_lines(real_logs())
    share = false / max(lines, 1)
    print(f"redact: {rate:.1f} MB/s of processor time on log text (limit {LIMIT_MB_S:.0f})")
    print(f"redact: {lost} of {planted} planted secrets missed (limit 0)")
    print(f"redact: {false} of {lines} lines of real logs masked, {share:.3%} (limit {LIMIT_FALSE:.1%})")
    for line in shown:
        print(f"redact:   {line}")
    masked, source_lines, _ = false_lines(sources())
    print(f"redact: {masked} of {source_lines} lines of installed source masked, {masked / source_lines:.3%}")
    return int(rate < LIMIT_MB_S or lost > 0 or share > LIMIT_FALSE)


if __name__ == "__main__":
    sys.exit(main())
