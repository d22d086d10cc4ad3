"""Bash, zsh and fish themselves complete with our scripts, and no hostile name becomes a command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripted_parts import STORY, begin, run
from tests.terminal_fixtures import environment, typing

BIN = Path(sys.executable).parent
THREAD = "20260131-142530-aaaa"
HOSTS = """
[hosts.gpu1]
role = "decode"
groups = ["prod", "$(touch ran)", "`touch ran`"]
ssh = "%F{red}$(touch ran)`touch ran`;touch ran"
[hosts."=ls"]
[hosts."$(touch ran)"]
[hosts."a;touch ran"]
[hosts."a b"]
[hosts."*"]
[hosts."-x"]
[hosts."~root"]
[hosts."a'b"]
"""


def need(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"{shell} is absent: apt-get install {shell}"
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's folder: hosts whose names mean harm, one investigation, a folder with files."""
    (tmp_path / ".config" / "leadline").mkdir(parents=True)
    (tmp_path / ".config" / "leadline" / "config.toml").write_text(HOSTS)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text("Host bastion $(id) a;id\n")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes one.txt").touch()
    return tmp_path


@pytest.fixture
async def thread(home: Path) -> str:
    """An investigation whose symptom speaks to the terminal."""
    work = begin(home / "state", STORY, thread=THREAD)
    await run(work)
    transcript = home / "state" / "threads" / THREAD / "transcript.jsonl"
    text = transcript.read_text().replace('"slow"', '"\\u001b[2J%F{red}$(touch ran)\\n@files\\tx"', 1)
    assert "touch ran" in text
    transcript.write_text(text)
    return THREAD


def shell_environment(home: Path) -> dict[str, str]:
    own = environment(str(home / "state"), PATH=f"{BIN}:{os.environ['PATH']}")  # noqa: TID251
    own |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XDG_CACHE_HOME": str(home / "c")}
    return {name: value for name, value in own.items() if name not in ("XDG_STATE_HOME", "ZDOTDIR")}


def by_bash(typed: str, home: Path) -> list[str]:
    """Return what bash would offer; it hands over the words as its own line editor parts them."""
    parts = shlex.split(typed) + ([""] if typed.endswith(" ") else [])
    script = "\n".join(
        [
            "source <(leadline completion bash)",
            f"COMP_LINE={shlex.quote(typed)}; COMP_POINT=${{#COMP_LINE}}",
            f"COMP_WORDS=({' '.join(map(shlex.quote, parts))}); COMP_CWORD={len(parts) - 1}",
            "_leadline; printf '%s\\n' \"${COMPREPLY[@]}\"",
        ]
    )
    return _lines(["bash", "-c", script], home)


def by_fish(typed: str, home: Path) -> list[str]:
    script = "leadline completion fish | source; complete -C $argv[1]"
    return [line.partition("\t")[0] for line in _lines(["fish", "--no-config", "-c", script, typed], home)]


def _lines(argv: list[str], home: Path) -> list[str]:
    done = subprocess.run(
        argv,
        env=shell_environment(home),
        cwd=home / "work",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


SETUP = """\
PROMPT='ready> '; unsetopt beep; autoload -Uz compinit; compinit -u -d $HOME/.zcompdump
source <(leadline completion zsh)
compadd() { (( ${#found} )) && print -rl -- $found >> $HOME/offered; builtin compadd "$@" }
dump() { print -r -- "$BUFFER" > $HOME/new; mv $HOME/new $HOME/buffer; BUFFER=; print; print dumped }
zle -N dump; bindkey '^X^B' dump; print set up
"""


def by_zsh(typed: str, home: Path, setup: str = SETUP) -> tuple[list[str], str]:
    """Type in a real zsh and press Tab; return what was offered, and the line as it stands then."""
    (home / "setup.zsh").write_text(setup)
    (home / "offered").write_text("")
    with typing(["zsh", "-f", "-i"], {**shell_environment(home), "PWD": str(home)}) as terminal:
        terminal.type(f"cd {shlex.quote(str(home / 'work'))}; source ../setup.zsh")
        terminal.expect("set up\n")
        terminal.expect("ready> ")
        terminal.type(f"{typed}\t\x18\x02", enter=False)
        terminal.expect("dumped")
    return (home / "offered").read_text().splitlines(), (home / "buffer").read_text().rstrip("\n")


TYPED = [
    ("leadline sess", ["sessions"]),
    ("leadline ask --mode ", ["read-only", "propose", "apply"]),
    ("leadline ask ", ["local", "gpu1", "@prod", "bastion"]),
    ("leadline ask lab:kimi-k26-tp8-", ["lab:kimi-k26-tp8-prefill"]),
    ("leadline lab up vllm-rented", ["vllm-rented-tp8"]),
    ("leadline sessions show ", [THREAD]),
    ("leadline nope ", []),
]


@pytest.mark.parametrize(("typed", "offered"), TYPED)
@need("fish")
def test_fish(home: Path, thread: str, typed: str, offered: list[str]) -> None:
    assert sorted(by_fish(typed, home)) == sorted(offered)
    assert not list(home.rglob("ran"))


@pytest.mark.parametrize(("typed", "offered"), TYPED)
def test_bash(home: Path, thread: str, typed: str, offered: list[str]) -> None:
    found = [word for word in by_bash(typed, home) if word]
    assert found == offered
    assert not list(home.rglob("ran"))


@pytest.mark.parametrize(("typed", "offered"), TYPED)
@need("zsh")
def test_zsh(home: Path, thread: str, typed: str, offered: list[str]) -> None:
    found, line = by_zsh(typed, home)
    assert found == offered, line
    assert len(offered) != 1 or line == f"{typed.rpartition(' ')[0]} {offered[0]} "
    assert not list(home.rglob("ran"))


@need("zsh")
def test_zsh_takes_files_other_commands_before_and_an_open_quote(home: Path) -> None:
    assert by_zsh("cd /nowhere; X=1 leadline ask gp", home)[1] == "cd /nowhere; X=1 leadline ask gpu1 "
    assert by_zsh('leadline ask "gp', home)[1] == 'leadline ask "gpu1" '
    assert by_zsh("leadline sessions validate no", home)[1] == "leadline sessions validate notes\\ one.txt "


@need("zsh")
def test_zsh_reads_it_from_a_folder_of_functions_too(home: Path) -> None:
    (home / "functions").mkdir()
    (home / "functions" / "_leadline").write_text("\n".join(_lines(["leadline", "completion", "zsh"], home)))
    first, _, rest = SETUP.partition("source <(leadline completion zsh)\n")
    setup = f"fpath=($HOME/functions $fpath)\n{first}{rest}"
    assert by_zsh("leadline ask gp", home, setup) == (["gpu1"], "leadline ask gpu1 ")


@need("fish")
def test_fish_takes_files_other_commands_before_and_an_open_quote(home: Path) -> None:
    assert by_fish("leadline sessions validate no", home) == ["notes one.txt"]
    assert by_fish("cd /nowhere; leadline ask gp", home) == ["gpu1"]
    assert by_fish("leadline ask 'gp", home) == ["gpu1"]
    assert by_fish("leadline ask gpu1 'one\ntwo' --mode a", home) == ["apply"]


KEY = r"""bind -x '"\C-x\C-b": printf "%s" "$READLINE_LINE" > ~/new; mv ~/new ~/buffer; echo dumped'"""


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("leadline ask lab:kimi-k26-tp8-p", "leadline ask lab:kimi-k26-tp8-prefill "),
        ("cd /nowhere; X=1 leadline ask gp", "cd /nowhere; X=1 leadline ask gpu1 "),
        ("leadline sessions rm ", f"leadline sessions rm {THREAD} "),
        ("leadline sessions validate no", "leadline sessions validate notes\\ one.txt "),
    ],
)
def test_bash_writes_the_word_into_its_line(home: Path, thread: str, typed: str, line: str) -> None:
    with typing(["bash", "--norc", "--noprofile", "-i"], shell_environment(home)) as terminal:
        terminal.type(f"cd {shlex.quote(str(home / 'work'))}; PS1='ready> '")
        terminal.type(f"source <(leadline completion bash); {KEY}; echo set'' up")
        terminal.expect("set up\n")
        terminal.expect("ready> ")
        terminal.type(f"{typed}\t\x18\x02", enter=False)
        terminal.expect("dumped")
    assert (home / "buffer").read_text() == line
    assert not list(home.rglob("ran"))
