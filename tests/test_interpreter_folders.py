"""What lies in a folder of the host decides patterns of file names, where the host tells it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.one_file import machine_of
from tools.interpreter.base import World
from tools.interpreter.values import Unknown
from tools.settings import host_facts
from tools.settings.types import HostFacts

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
