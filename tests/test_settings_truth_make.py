"""Records are made by the engine's own code in a process of its own; a small engine stands for a real one."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from evals.truth import environment, lines, make, read, wheels
from evals.truth.inside import pins
from evals.truth.inside.plain import plain
from evals.truth.lines import Line
from evals.truth.make import Asked, RecordingError

TORCH = """
import types
from importlib.machinery import ModuleSpec
import sys
for name in ("torch._inductor", "torch._inductor.utils"):
    sys.modules[name] = types.ModuleType(name)
version = types.SimpleNamespace(cuda=None)
cuda = types.SimpleNamespace()
library = types.SimpleNamespace(define=lambda name, schema: None)
"""
ENGINE = """
import argparse, dataclasses, logging, os, subprocess, uuid

import flashinfer
import torch
from importlib.metadata import version

AT_IMPORT = (torch.cuda.get_device_capability(), os.environ.get("SGLANG_SMALL"))
SEEN = []


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    size: int = 1
    architecture: str = ""
    variable: str = ""
    memory: str = ""
    earlier: int = 0
    drawn: str = ""
    kernels: str = ""

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--size", type=int, default=1, choices=[1, 2, 3, 4])

    def __post_init__(self):
        if self.size == 3:
            raise ValueError(f"three is too many for {self.model_path}")
        if self.size == 4:
            os._exit(3)
        self.architecture, self.variable = str(AT_IMPORT[0]), str(AT_IMPORT[1])
        smi = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        self.memory = subprocess.run(smi, capture_output=True, text=True).stdout
        self.earlier, self.drawn, self.kernels = len(SEEN), uuid.uuid4().hex, version("flashinfer-python")
        SEEN.append(self)
        os.environ["SGLANG_DERIVED"] = "1"
        logging.getLogger("sglang.small").warning("size is %s", self.size)

    def check_server_args(self):
        assert self.size != 2, "two is refused"


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return ServerArgs(**vars(parser.parse_args(argv)))
"""
LINES = [
    Line("llama-8b", ()),
    Line("llama-8b", (), "h100x8"),
    Line("llama-8b", (), environment={"SGLANG_SMALL": "on"}),
    Line("llama-8b", ("--size", "2")),
    Line("llama-8b", ("--size", "3")),
    Line("llama-8b", ("--size", "4")),
    Line("llama-8b", ("--sise", "4")),
]


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "sglang-9.9-000000000000"
    named = ("sglang/srt/server_args.py", "sglang/csrc/small.cuh", "sglang/_C.abi3.so", "../../out")
    required = ("flashinfer_python==1.2", "transformers>=4.1")
    files = {
        "sglang/__init__.py": "",
        "sglang/srt/__init__.py": "",
        "sglang/srt/server_args.py": ENGINE,
        "sglang-9.9.dist-info/METADATA": "".join(f"Requires-Dist: {one}\n" for one in required),
        "sglang-9.9.dist-info/RECORD": "".join(f"{name},,\n" for name in named),
    }
    put(folder, files)
    return folder


@pytest.fixture
def asked(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Ask for records of the small engine under this interpreter, with a small torch."""
    put(tmp_path / "beside", {"torch/__init__.py": TORCH})
    monkeypatch.setattr(wheels, "source", lambda *args: site)
    monkeypatch.setattr(environment, "interpreter", lambda *args: Path(sys.executable))
    monkeypatch.setattr(environment, "transformers", lambda *args: tmp_path / "beside")
    monkeypatch.setattr(lines, "chosen", lambda engine: LINES)
    monkeypatch.setattr(lines, "drawn", lambda engine, seed, count, options: _drawn(options))
    return Asked("sglang", "9.9", "word", 1, tmp_path / "cache")


def _drawn(options: dict[str, Any]) -> list[Line]:
    assert options["--size"] == ["1", "2", "3", "4"] and options["--model-path"] is None
    return []


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def test_records_hold_what_the_engine_made_of_each_line(asked: Asked) -> None:
    said: list[str] = []
    out = make.make(asked, said.append)
    first, other, variable, refused, raised, died, unknown = rows(out)
    assert first["fields"]["model_path"] == "{M}/llama-8b" and first["fields"]["drawn"] == "<uuid>"
    assert first["fields"]["memory"].split("\n") == ["97887"] * 8 + [""]
    assert first["fields"]["kernels"] == first["packages"]["flashinfer-python"] == "1.2"
    assert [one["fields"]["architecture"] for one in (first, other)] == ["(12, 0)", "(9, 0)"]
    assert [one["fields"]["variable"] for one in (first, variable)] == ["None", "on"]
    assert [one["fields"]["earlier"] for one in (first, refused)] == [0, 0]  # no line sees another
    assert first["logs"] == [["WARNING", "sglang.small", "size is 1"]]
    assert first["env_set"] == {"SGLANG_DERIVED": "1"} and first["check"] == {"ok": True, "changed": {}}
    assert refused["ok"] and refused["check"]["exception"]["message"] == "two is refused"
    assert raised["exception"]["message"] == "three is too many for {M}/llama-8b"
    assert raised["exception"]["where"].startswith("sglang/srt/server_args.py:")
    assert died["exception"]["type"] == "WorkerDied" and not died["ok"]
    assert (
        unknown["stage"] == "parse" and "unrecognized arguments: --sise 4" in unknown["exception"]["message"]
    )
    assert said[-1] == "sglang 9.9: 7 of 7 lines"


def test_what_was_made_is_read_again(asked: Asked) -> None:
    found = read.read(make.make(asked, lambda text: None))
    accepted = [record for record in found.records if record.accepted]
    assert (found.engine, found.version, len(found.records), len(accepted)) == ("sglang", "9.9", 7, 3)
    assert all(record.packages and record.packages["flashinfer-python"] == "1.2" for record in found.records)
    assert accepted[0].drawn("drawn") and not accepted[0].drawn("size")
    packed = read.compact(found)
    assert next(row["fields"] for row in packed["records"] if "fields" in row) == {}


def test_an_engine_that_cannot_be_imported_is_told(asked: Asked, site: Path) -> None:
    (site / "sglang/srt/server_args.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(RecordingError, match="No module named 'nothing_of_this_name'"):
        make.make(asked, lambda text: None)


def test_a_package_is_laid_out_with_the_files_that_were_not_fetched(site: Path, tmp_path: Path) -> None:
    laid = wheels.laid_out(site, tmp_path / "laid")
    assert (laid / "sglang/csrc/small.cuh").read_bytes() == b""
    assert (laid / "sglang/srt/server_args.py").read_text() == ENGINE
    assert not (laid / "sglang/_C.abi3.so").exists() and not (tmp_path / "out").exists()
    assert pins.compiled(site) == {"sglang._C"}


def test_requirements_are_read_with_their_versions(site: Path) -> None:
    metadata = next(site.glob("*.dist-info/METADATA"))
    extra = 'Requires-Dist: torch==2.9 ; extra == "srt"\nRequires-Dist: black==1 ; extra == "dev"\n'
    metadata.write_text(metadata.read_text() + extra)
    assert pins.required(site) == {"flashinfer-python": "1.2", "transformers": "4.1", "torch": "2.9"}
    assert pins.exactly(site, "torch") == "2.9" and pins.exactly(site, "transformers") == ""
    assert pins.pretended(site)["flashinfer-python"] == ("1.2", ("flashinfer",))


def test_values_become_json() -> None:
    assert plain({1: (True, float("inf")), "set": {"b", "a"}}) == {"1": [True, "inf"], "set": ["a", "b"]}
    assert plain(object()) == "<object object>"
