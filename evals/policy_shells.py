"""Compare what the command policy understood with what bash and dash really start, for generated commands.

Every command is a stand-in that writes its arguments down; many go through one shell, in a sandbox where
there is one. ``python -m evals.policy_shells 200000`` is the nightly run; a test does 5,000.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools import policy_parse

SHELLS: Final = ("bash", "dash")
NAMES: Final = (
    "grep", "tr", "cat", "head", "wc", "cut", "rg", "ls",
    "find", "uniq", "sort", "curl", "jq", "ss", "echo", "test",
    "sed", "tail", "id",
)  # fmt: skip
FILES: Final = ("ab", "data")
"""What lies in the folder the shells run in, so that globs find something."""
_PLAIN: Final = (
    "x", "-n", "5", "a=b", "-e", "/opt/x", "-A3", "--", "!",
    "%s", "^a", "a,b", "@x", "+5", "-", "data", "2", "a:b",
    "--x=y", "a-b", "A_B", "_", "--include=", "/", "//", "a@b", "1e5",
)  # fmt: skip
_QUOTED: Final = (
    "'a b'", '"a b"', "''", '""', '"a$"', '"a$|b"', '"a$)"', '"\\$x"', '"\\n"', '"a\\"b"', "'a\"b'", '"a\'b"',
    "a''b", '"\\\\"', '"\\`"', '"\\a"', "'*'", "'{a,b}'",
    "'$x'", "'\\n'", '"~"', '"!x"', "'#'", "'#a'", "';'",
    "'a'\"b\"c", "x'y z'", '"{a,b}"', '"*"', "'`id`'",
    "'$(id)'", '"a  b"', "'  '", '"#"', "'\\'", "2>/dev/null",
    "2> /dev/null", "2>&1", "< data", "< 'data'", "| cat", "|head -5", "| grep 'a b'", "|wc",
)  # fmt: skip
_TRICKY: Final = (
    "{a,b}", "{1..3}", "{-exec,id}", "a{b,c}d", "{,x}", "{}", "*",
    "?", "[a-z]*", "a?", "~", "~root", "a=~", "~+",
    "$x", "${x}", "$(id)", "`id`", "$'a'", '$"a"', "$x$x",
    "a$x", '"$x"', '"a${x}"', '"$(x)"', '"`x`"', "$", "$$",
    "\\", "\\n", "\\ ", "\\\\", "a\\b", "#", "#a", "a#b", " # a",
    ";", "&", "|", "||", "&&", "|&", "(", ")", "<", ">",
    "<data", ">/dev/null", "2>x", ">x", "1>x", "&>x", "2>>x",
    "2>&2", "<<x", "<<<x", "<(id)", "1", "=", "==", "=x",
    "=(a)", "a=(b)", "x=1", "'", '"', "%", "]", "}", "{", "!!", "@(a|b)", "\n", "\t", "\nid", "; id", "2>&1x",
)  # fmt: skip
_STARTS: Final = (
    "'grep'", '"ls"', "gr'e'p", 'l"s"', "x=1 ls", "! ls", "( ls", "{ ls", "time ls",
)  # fmt: skip
Started = tuple[tuple[str, ...], ...]
"""The argument vectors that one text starts, sorted: the parts of a pipeline start at once."""
_END: Final = "\x1e"
_BATCH: Final = 400
_LIMIT_S: Final = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """Tell what one shell started for a text, and what was judged."""

    shell: str
    text: str
    judged: Started
    started: Started


@dataclass(slots=True)
class Found:
    """Count generated and accepted commands, and hold what differed."""

    generated: int = 0
    accepted: int = 0
    differences: list[Difference] = field(default_factory=list)


def commands(seed: int) -> Iterator[str]:
    """Return commands without end: plain, quoted and tricky pieces, with and without blanks between."""
    chance = random.Random(seed)
    pieces = (*_PLAIN, *_PLAIN, *_QUOTED, *_QUOTED, *_QUOTED, *_TRICKY)
    while True:
        text = chance.choice(NAMES if chance.random() < 0.9 else _STARTS)
        for _ in range(chance.randint(1, 5)):
            text += (" " if chance.random() < 0.85 else "") + chance.choice(pieces)
        yield text


def compare(count: int, seed: int, *, until_different: bool = False) -> Found:
    """Try generated commands until ``count`` are accepted, or one of them differs."""
    found = Found()
    batch: list[tuple[str, tuple[policy_parse.Stage, ...]]] = []
    with TemporaryDirectory(prefix="policy-shells-") as folder:
        shells = Shells(Path(folder))
        for text in commands(seed):
            found.generated += 1
            if (stages := _startable(text)) is not None:
                batch.append((text, stages))
                found.accepted += 1
            if len(batch) == _BATCH or found.accepted == count:
                found.differences += shells.differences(batch)
                batch = []
                if found.accepted >= count or (until_different and found.differences):
                    return found
    raise AssertionError("the generator does not end")


def _startable(text: str) -> tuple[policy_parse.Stage, ...] | None:
    """Return the stages of an accepted command that the stand-ins can start: its input exists."""
    try:
        stages = policy_parse.parse(text)
    except policy_parse.Unreadable:
        return None
    known = all(stage.stdin in (None, "data") and stage.argv[0] in NAMES for stage in stages)
    return stages if known else None


class Shells:
    """Run texts in shells in which every command writes its arguments down."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.notes = folder / "notes"
        for path in (self.work, self.notes):
            path.mkdir()
        self._tidy()
        self.sandbox = self._sandbox()

    def differences(self, batch: Sequence[tuple[str, Sequence[policy_parse.Stage]]]) -> list[Difference]:
        """Return where a shell started something else than was judged, by the text or what is rendered."""
        texts: list[str] = []
        judged: list[Started] = []
        for text, stages in batch:
            argv = tuple(sorted(stage.argv for stage in stages))
            texts += [text, " | ".join(stage.rendered for stage in stages)]
            judged += [argv, argv]
        return [one for shell in SHELLS if (one := self._difference(shell, texts, judged)) is not None]

    def _difference(self, shell: str, texts: Sequence[str], judged: Sequence[Started]) -> Difference | None:
        """Run all texts in one shell; where not all is as judged, look for one text that alone tells why."""
        together = self._run(shell, texts)
        if together == list(judged):
            return None
        while len(texts) > 1:
            half = len(texts) // 2
            first = self._run(shell, texts[:half])
            if first != list(judged[:half]):
                texts, judged, together = texts[:half], judged[:half], first
            else:
                texts, judged = texts[half:], judged[half:]
                together = self._run(shell, texts)
        return Difference(
            shell, texts[0], judged[0], together[0] if together else (("nothing came to an end",),)
        )

    def _run(self, shell: str, texts: Sequence[str]) -> list[Started]:
        """Return what each line started, as far as the shell came in time."""
        record = self.notes / "record"
        record.write_bytes(b"")
        lines = "".join(f"{text}\nmarker\n" for text in texts)
        (self.notes / "script").write_text(_stand_ins() + lines)
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                self._argv(shell),
                cwd=self.work,
                env={
                    "PATH": "/nowhere",
                    "R": str(record),
                    "x": "expanded  value",
                    "HOME": "/nowhere",
                    "LC_ALL": "C",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_LIMIT_S,
                check=False,
            )
        started: list[list[tuple[str, ...]]] = [[]]
        for run in record.read_bytes().decode("utf-8", "replace").split(f"{_END}\0")[:-1]:
            argv = tuple(run.split("\0")[:-1])
            if argv == ("marker",):
                started.append([])
            else:
                started[-1].append(argv)
        if self._tidy():
            started[0].append(("a file was made",))
        return [tuple(sorted(line)) for line in started[:-1]]

    def _argv(self, shell: str) -> list[str]:
        path = shutil.which(shell)
        assert path, f"{shell} is not installed"
        argv = [path, str(self.notes / "script")]
        return [*self.sandbox, *argv]

    def _sandbox(self) -> list[str]:
        """Return what keeps a shell from writing elsewhere; nothing where that cannot be had."""
        if (bwrap := shutil.which("bwrap")) is None:
            return []
        argv = [
            bwrap,
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--tmpfs",
            "/tmp",
        ]
        for own in (self.work, self.notes):
            argv += ["--bind", str(own), str(own)]
        argv += ["--chdir", str(self.work)]
        works = subprocess.run([*argv, "true"], capture_output=True, timeout=_LIMIT_S, check=False)
        return argv if works.returncode == 0 else []

    def _tidy(self) -> bool:
        """Bring the folder back to what it holds at first; tell whether something else was there."""
        changed = False
        for path in self.work.iterdir():
            if path.name not in FILES or path.stat().st_size:
                changed = True
                path.unlink()
        for name in FILES:
            (self.work / name).touch()
        return changed


def _stand_ins() -> str:
    """Return functions that write their arguments down; for all other names bash has a handler."""
    write = f"printf '%s\\0' %s \"$@\" '{_END}' >> \"$R\""
    functions = [f"{name}() {{ {write.replace(' %s ', f' {name} ', 1)}; }}" for name in (*NAMES, "marker")]
    handler = write.replace(" %s ", " ", 1)
    return "\n".join([*functions, f"command_not_found_handle() {{ {handler}; }}", ""])


def main(argv: Sequence[str]) -> int:
    """Print what was tried as one JSON line; return 1 when a shell started anything else than was judged."""
    count = int(argv[0]) if argv else 5_000
    seed = int(argv[1]) if len(argv) > 1 else random.SystemRandom().randrange(1 << 32)
    found = compare(count, seed)
    shown = [
        {"shell": one.shell, "text": one.text, "judged": one.judged, "started": one.started}
        for one in found.differences[:10]
    ]
    row = {
        "seed": seed,
        "generated": found.generated,
        "accepted": found.accepted,
        "differences": len(found.differences),
        "first": shown,
    }
    sys.stdout.write(json.dumps(row) + "\n")
    return 1 if found.differences else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
