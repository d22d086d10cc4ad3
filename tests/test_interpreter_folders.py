"""What lies in a folder of the host decides patterns of file names, where the host tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.one_file import OneFile, machine_of
from tools.interpreter.base import World
from tools.interpreter.machine import Machine
from tools.interpreter.values import Unknown
from tools.settings import host_facts
from tools.settings.types import HostFacts
from tools.syntax import Module, parse

TEXT = """
import glob
import os
from pathlib import Path

def weights(folder):
    return bool(glob.glob(os.path.join(folder, "model*.safetensors")))

def first(folder):
    return glob.glob(os.path.join(folder, "*.json"))[0]

def deep(folder):
    return glob.glob(os.path.join(folder, "**", "*.json"))

def shards(folder):
    return len(sorted(Path(folder).glob("*.safetensors"))) > 0
"""


def listed(**folders: list[str]) -> HostFacts:
    def names(path: str) -> Sequence[str]:
        name = path.strip("/")
        if name not in folders:
            raise OSError(path)
        return folders[name]

    return HostFacts(list_folder=names)


def asked(name: str, folder: str, facts: HostFacts) -> Any:
    machine = machine_of(TEXT, "sglang", World(facts, {}))
    module = machine.module_named("sglang.m")
    assert module is not None
    return machine.call(machine.module_attribute(module, name), (folder,), {})


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ([], False),
        (["config.json"], False),
        (["model.safetensors"], True),
        (["model-2.safetensors", "model-1.safetensors"], True),
        (["consolidated.safetensors", ".model.safetensors"], False),
    ],
)
def test_a_folder_that_is_known_says_whether_files_are_there(held: list[str], found: bool) -> None:
    assert asked("weights", "/m", listed(m=held)) is found


def test_the_one_file_is_known_and_the_order_of_several_is_not() -> None:
    assert asked("first", "/m", listed(m=["a.json", "b.txt"])) == "/m/a.json"
    assert isinstance(asked("first", "/m", listed(m=["a.json", "b.json"])), Unknown)
    assert asked("shards", "/m", listed(m=["a.safetensors"])) is True
    assert asked("shards", "/m", listed(m=[])) is False


@pytest.mark.parametrize("facts", [HostFacts(), listed(other=[])])
def test_a_folder_that_is_not_known_decides_nothing(facts: HostFacts) -> None:
    for name in ("weights", "first", "shards"):
        assert isinstance(asked(name, "/m", facts), Unknown)


def test_a_search_below_folders_is_not_answered() -> None:
    assert isinstance(asked("deep", "/m", listed(m=["a.json"])), Unknown)
    assert isinstance(asked("weights", "m", listed(m=["a.json"])), Unknown)


def test_a_folder_of_this_machine_is_listed_without_hidden_files(tmp_path: Path) -> None:
    for name in ("config.json", ".hidden"):
        (tmp_path / name).write_text("")
    assert host_facts.list_local(str(tmp_path)) == ["config.json"]
    with pytest.raises(OSError, match="nowhere"):
        host_facts.list_local(str(tmp_path / "nowhere"))


PACKAGE = {
    "a/__init__.py": "",
    "a/b/__init__.py": """
import importlib
import pkgutil

def names():
    package = importlib.import_module("sglang.a.b")
    found = pkgutil.iter_modules(package.__path__, "sglang.a.b.")
    return [(name, is_package) for _, name, is_package in found]

def elsewhere():
    return [name for _, name, _ in pkgutil.iter_modules(["/usr/lib"])]
""",
    "a/b/two.py": "",
    "a/b/one.py": "",
    "a/b/inner/__init__.py": "",
    "a/b/inner/deep.py": "",
    "a/b/data/notes.txt": "",
}


class Files(OneFile):
    """Hold a package of several files."""

    def __init__(self, files: Mapping[str, str], record: str = "") -> None:
        super().__init__("", "sglang")
        self.files, self.record = files, record.encode()

    def read(self, path: str) -> bytes | None:
        return self.files[path].encode() if path in self.files else None

    def paths(self) -> Sequence[str]:
        return list(self.files)

    def distribution(self, name: str) -> bytes | None:
        return self.record if name == "RECORD" else None


def in_package(name: str, files: Mapping[str, str], record: str = "") -> Any:
    tree = Files(files, record)

    def parsed(path: str) -> Module | None:
        data = tree.read(path)
        return parse(data) if data is not None else None

    machine = Machine(tree, "sglang", World(HostFacts(), {}), parsed)
    module = machine.module_named("sglang.a.b")
    assert module is not None
    return machine.call(machine.module_attribute(module, name), (), {})


def test_the_modules_of_a_folder_of_the_package_are_those_that_lie_in_it() -> None:
    expected = [("sglang.a.b.inner", True), ("sglang.a.b.one", False), ("sglang.a.b.two", False)]
    assert in_package("names", PACKAGE) == expected


def test_modules_that_cannot_be_listed_stay_unknown() -> None:
    assert isinstance(in_package("elsewhere", PACKAGE), Unknown)
    compiled = "sglang/a/b/fast.cpython-311-x86_64-linux-gnu.so,sha256=x,1\n"
    assert isinstance(in_package("names", PACKAGE, compiled), Unknown)
    many = PACKAGE | {f"a/b/m{n}.py": "" for n in range(40)}
    assert isinstance(in_package("names", many), Unknown)
