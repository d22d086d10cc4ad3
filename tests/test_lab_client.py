"""The program behind every stand-in: what process 1 answers comes out unchanged, in Perl as in Python."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from evals.lab.inside.control import SOCKET
from evals.lab.layout import Interpreter, client

PERL = Path(shutil.which("perl") or "/none/perl")


@pytest.fixture(params=["perl", "python"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "perl" and not PERL.is_file():
        pytest.skip("no perl here")
    text = client(Interpreter(), PERL if request.param == "perl" else Path("/none/perl"))
    assert SOCKET in text and (f"#!{PERL}\n" in text) == (request.param == "perl")
    path = tmp_path / "nvidia-smi"
    path.write_text(text.replace(SOCKET, str(tmp_path / "control")))
    path.chmod(0o755)
    return path


async def served(program: Path, frames: bytes, *words: str) -> tuple[list[bytes], bytes, bytes, int]:
    """Run the program against a server that answers with frames; return also what it asked for."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        asked.extend((await reader.readexactly(size)).split(b"\0"))
        writer.write(frames)
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, program.parent / "control"):
        child = await asyncio.create_subprocess_exec(program, *words, stdout=-1, stderr=-1)
        out, err = await child.communicate()
    assert child.returncode is not None
    return asked, out, err, child.returncode


def frame(kind: bytes, data: bytes) -> bytes:
    return kind + len(data).to_bytes(4, "big") + data


async def test_words_go_in_and_streams_and_exit_code_come_out(program: Path) -> None:
    data = bytes(range(256)) * 4000
    frames = frame(b"1", data) + frame(b"2", "größer\n".encode()) + frame(b"1", b"") + frame(b"x", b"\7")
    odd = os.fsdecode(b"\xff") + " two\nlines"
    asked, out, err, code = await served(program, frames, "--query", "", odd)
    assert asked == [b"nvidia-smi", b"--query", b"", b"\xff two\nlines"]
    assert (out, err, code) == (data, "größer\n".encode(), 7)


async def test_an_answer_that_is_cut_off_is_a_failure(program: Path) -> None:
    _, out, _, code = await served(program, frame(b"1", b"half") + b"1\0\0")
    assert (out, code) == (b"half", 1)


async def test_without_process_1_it_fails(program: Path) -> None:
    child = await asyncio.create_subprocess_exec(program, stdout=-1, stderr=-1)
    await child.communicate()
    assert child.returncode == 1


async def test_a_reader_that_goes_away_ends_it(program: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(10_000):
                writer.write(frame(b"1", b"line\n" * 1000))
                await writer.drain()
        except ConnectionError:
            pass

    async with await asyncio.start_unix_server(answer, program.parent / "control"):
        child = await asyncio.create_subprocess_exec(
            "sh", "-c", '{ "$0"; echo $? >&2; } | head -n 1', program, stdout=-1, stderr=-1
        )
        out, err = await asyncio.wait_for(child.communicate(), 60)
    assert (out, err) == (b"line\n", b"141\n")
