"""The table of configuration classes is packed so that little of it is read."""

from __future__ import annotations

from tools.interpreter.library.model_classes import FILE, PARTS, Table
from tools.interpreter.library.model_classes_file import pack, unpack, unpacked


def rows(count: int) -> str:
    long = "\n".join(f'classes\tC{n}\t0-1\t{{"in":"m{n}","text":"{"x" * 3000}"}}' for n in range(count))
    return f'4.1.0 5.1.0\ntypes\tc0\t0-1\t"C0"\n{long}\ntraits\tshort\t1\ttrue\n'


def test_a_table_comes_out_as_it_went_in() -> None:
    text = rows(200)
    assert "\n".join(unpacked(pack(text))) + "\n" == text


def test_only_the_blocks_that_are_asked_for_are_read() -> None:
    index, blocks = unpack(pack(rows(200)))
    assert len(index) < 10_000
    table = Table(index, blocks)
    release = table.release("5.1.0")
    assert (release.types["c0"], release.traits["short"]) == ("C0", True)
    assert not blocks._read
    assert release.classes["C199"]["in"] == "m199"
    assert len(blocks._read) == 1
    assert len(table.release("4.1.0").traits) == 0


def test_what_comes_with_the_program_is_packed_as_it_would_be_today() -> None:
    data = FILE.read_bytes()
    text = "\n".join(unpacked(data)) + "\n"
    assert {line.split("\t", 1)[0] for line in text.splitlines()[1:]} == set(PARTS)
    assert "\n".join(unpacked(pack(text))) + "\n" == text
