"""Measure the chat in a pseudo-terminal: its prompt, tokens on the screen, and what typing waits for.

The prompt is compared with a program that imports the same libraries and nothing of ours. Tokens come from an
endpoint that writes the time into each; their way to the screen ends when the terminal has their bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from evals.pseudo_terminal import PseudoTerminal

PROMPT_LIMIT = 1.3
TOKEN_LIMIT_S = 0.020
KEYBOARD_LIMIT_S = 0.050
_ROUNDS = 7
_TOKENS = 150
_BETWEEN_S = 0.02
_TICK_S = 0.002
_OPENS_S = 1.0
"""The input line comes up in the loop, before anybody can type."""
_LEAVES_S = 0.5
_SYMPTOM = "the decode of this machine is slow, about 24 tok/s, and the GPUs draw 85 W of 600 W"
_KEY_S = 0.05
"""A person who types fast."""
_PROMPT = "what is wrong>"
_TOKEN = re.compile(r"<(\d{4}):(\d+)>")
_OURS = ("agent", "tools", "prompts", "evals", "__main__")
_LEADLINE = str(Path(sys.executable).with_name("leadline"))


class Endpoint(BaseHTTPRequestHandler):
    """Stream tokens that hold the time at which they were sent; read the host between, then conclude."""

    turns = 0

    def do_POST(self) -> None:
        """Answer one request for a turn."""
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).turns += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        number = type(self).turns
        for place in range(_TOKENS if number < 3 else 1):
            self._send({"content": _token(place) if number < 3 else "Done. "})
            time.sleep(_BETWEEN_S)
        name, arguments = _CALLS[min(number, 3) - 1]
        call = {"index": 0, "id": f"c{number}", "type": "function"}
        self._send({"tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}]})
        self._send({}, "tool_calls")
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, delta: Mapping[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        part = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "timed"}
        self.wfile.write(f"data: {json.dumps({**part, 'choices': [choice]})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _token(place: int) -> str:
    """Return a token that no redraw breaks: what it is drawn over is blank, and it is on no line's edge."""
    return f"<{place:04}:{time.monotonic_ns()}>{' ' if place % 4 < 3 else chr(10)}"


_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("run", {"command": "uname -a"}),
    ("facts", {}),
    (
        "conclude",
        {"outcome": "inconclusive", "summary": "Nothing was looked for.", "claims": [], "next_step": "none"},
    ),
)


def main() -> int:
    """Print what was measured; return 1 when a limit is passed."""
    with tempfile.TemporaryDirectory() as folder:
        ratio, ours, first = _prompt(Path(folder))
        tokens, typed, lag = _session(Path(folder))
    late = statistics.quantiles(tokens, n=20)[-1]
    print(f"chat: prompt {ratio:.2f} x what it imports ({_ms(ours)}), limit {PROMPT_LIMIT}")
    print(f"chat: first sign on the screen after {_ms(first)}")
    print(
        f"chat: a token on the screen {_ms(statistics.median(tokens))} after it was sent, 95% within "
        f"{_ms(late)} (of {len(tokens)}), limit {_ms(TOKEN_LIMIT_S)}"
    )
    print(
        f"chat: a key echoed within {_ms(statistics.median(typed))}, at most {_ms(max(typed))} (of "
        f"{len(typed)}); the loop late by at most {_ms(lag[0])}, its longest work {_ms(lag[1])}, "
        f"limit {_ms(KEYBOARD_LIMIT_S)}"
    )
    return int(ratio > PROMPT_LIMIT or late > TOKEN_LIMIT_S or lag[0] > KEYBOARD_LIMIT_S)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}  # noqa: TID251
    own = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "LEADLINE_STATE_DIR": str(folder)}
    return {**kept, **own, "LEADLINE_MODEL_RETRIES": "0", **more}


def _prompt(folder: Path) -> tuple[float, float, float]:
    """Return how much longer the prompt takes than its imports, its seconds, and those to a first sign."""
    chat = [_LEADLINE, "chat", "local"]
    bare = folder / "bare.py"
    bare.write_text(_bare(chat, folder))
    ours: list[float] = []
    base: list[float] = []
    first: list[float] = []
    for _ in range(_ROUNDS):
        for argv, spent in (([sys.executable, str(bare)], base), (chat, ours)):
            with PseudoTerminal(argv, _environment(folder)) as terminal:
                began = time.monotonic()
                terminal.until(_PROMPT)
                spent.append(time.monotonic() - began)
                if argv is chat:
                    first.append(terminal.first_at - began)
    return min(ours) / min(base), min(ours), min(first)


def _bare(chat: list[str], folder: Path) -> str:
    """Return a program that imports what the chat has imported by its prompt, apart from our own modules."""
    with PseudoTerminal(chat, _environment(folder, PYTHONPROFILEIMPORTTIME="1")) as terminal:
        terminal.until(_PROMPT)
        told = terminal.text
    names = [line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")]
    theirs = [name for name in names if name.partition(".")[0] not in _OURS and "imported" not in name]
    return (
        f"from importlib import import_module\nfor name in {list(dict.fromkeys(theirs))!r}:\n"
        "    try: import_module(name)\n    except Exception: pass\n"
        f"print({_PROMPT!r}, flush=True)\nimport time\ntime.sleep(30)\n"
    )


def _session(folder: Path) -> tuple[list[float], list[float], tuple[float, float]]:
    """Return the ways of tokens and keys to the screen, and lag and longest work of the loop, in s."""
    Endpoint.turns = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lag = folder / "lag"
    argv = [sys.executable, "-m", "evals.bench_chat", "--child", f"http://127.0.0.1:{server.server_port}/v1"]
    typed: list[float] = []
    try:
        with PseudoTerminal([*argv, str(lag)], _environment(folder)) as terminal:
            terminal.until(_PROMPT)
            for key in _SYMPTOM:
                typed.append(terminal.echo_of(key))
                terminal.read_for(_KEY_S)
            terminal.type("\r")
            terminal.until("working>")
            while Endpoint.turns < 3:
                typed.append(terminal.echo_of("~"))
                terminal.type("\x7f")
                terminal.read_for(0.1)
            terminal.until("ask on>", 60)
            tokens = list(_ways(terminal))
            terminal.type("\x04")
            terminal.wait()
        waited, worked = (float(number) for number in lag.read_text().split())
        return tokens, typed, (waited, worked)
    finally:
        server.shutdown()
        server.server_close()


def _ways(terminal: PseudoTerminal) -> Iterator[float]:
    """Yield how long each token took to the screen; one that was broken over two lines is passed over."""
    seen: set[tuple[str, str]] = set()
    for at, text in terminal.arrivals():
        for place, sent in _TOKEN.findall(text):
            if (place, sent) not in seen:
                seen.add((place, sent))
                yield at - int(sent) / 1e9


def _child(base_url: str, lag: Path) -> None:
    """Hold the chat in a loop that is watched; write the longest time that nothing else could run."""
    from agent.surfaces import chat
    from agent.surfaces.main import collect_less
    from agent.surfaces.open_options import OpenOptions

    collect_less()
    late: list[tuple[float, float, float]] = []

    async def watch() -> None:
        while True:
            began, work = time.monotonic(), time.thread_time()
            await asyncio.sleep(_TICK_S)
            late.append((began, time.monotonic() - began - _TICK_S, time.thread_time() - work))

    async def watched() -> None:
        watching = asyncio.create_task(watch())
        try:
            await chat.converse(OpenOptions(host="local", model="timed", base_url=base_url))
        finally:
            watching.cancel()

    asyncio.run(watched())
    first, last = late[0][0] + _OPENS_S, late[-1][0] - _LEAVES_S
    during = [(waited, worked) for began, waited, worked in late if first < began < last]
    lag.write_text(f"{max(waited for waited, _ in during):.6f} {max(worked for _, worked in during):.6f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
