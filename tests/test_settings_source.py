"""The local source of an engine, and syntax trees of it: found, bounded, cached, newer than our Python."""

from __future__ import annotations

import ast
import hashlib
import os
from pathlib import Path

import pytest

from tools.settings import source
from tools.settings.source import LocalTree, SettingsSourceError
from tools.settings.trees import cite, digest, parsed, read_module, unreadable


def _package(folder: Path, name: str = "sglang") -> Path:
    package = folder / name
    mark = "srt/server_args.py" if name == "sglang" else "engine/arg_utils.py"
    (package / mark).parent.mkdir(parents=True)
    (package / mark).write_text("class ServerArgs:\n    pp_size: int = 1\n")
    return package


def _metadata(folder: Path, name: str, version: str) -> Path:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: 9\n")
    return info


def test_a_package_is_found_from_every_folder_people_name(tmp_path: Path) -> None:
    package = _package(tmp_path / "checkout/python")
    for folder in (package, package.parent, package.parent.parent):
        tree = LocalTree(folder)
        assert (tree.engine, tree.version, tree.folder) == ("sglang", "", package)
        assert tree.paths() == ("srt/server_args.py",)
    assert LocalTree(_package(tmp_path, "vllm").parent).engine == "vllm"


def test_the_version_is_that_of_the_metadata_else_that_of_the_package(tmp_path: Path) -> None:
    package = _package(tmp_path)
    (package / "version.py").write_text("__version__ = version = '0.5.11'\n")
    assert LocalTree(tmp_path).version == "0.5.11"
    _metadata(tmp_path, "sglang_kernel", "0.4")
    info = _metadata(tmp_path, "sglang", "0.5.12")
    (info / "RECORD").write_text("sglang/x.py,,\n")
    tree = LocalTree(tmp_path)
    assert tree.version == "0.5.12"
    assert tree.distribution("RECORD") == b"sglang/x.py,,\n"
    assert tree.distribution("../sglang/version.py") is None
    assert tree.distribution("none") is None
    old = _metadata(tmp_path, "sglang", "0.5.10")
    os.utime(old, (1, 1))
    assert LocalTree(tmp_path).version == "0.5.12"


def test_two_engines_in_one_folder_are_told_apart_by_name(tmp_path: Path) -> None:
    _package(tmp_path), _package(tmp_path, "vllm")
    with pytest.raises(SettingsSourceError, match=r"two engines.*name one of them"):
        LocalTree(tmp_path)
    assert LocalTree(tmp_path, engine="vllm").engine == "vllm"
    assert LocalTree(tmp_path / "sglang").engine == "sglang"


def test_folders_without_a_package_are_refused_with_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SettingsSourceError, match="is no folder"):
        LocalTree(tmp_path / "none")
    with pytest.raises(SettingsSourceError, match=r"no sglang/srt/server_args[.]py or"):
        LocalTree(tmp_path)
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/_core.so").write_bytes(b"\x7fELF")
    with pytest.raises(SettingsSourceError, match=r"compiled or stripped.*unpacked wheel"):
        LocalTree(tmp_path)


def test_files_are_read_once_and_only_inside_the_package(tmp_path: Path) -> None:
    package = _package(tmp_path)
    (tmp_path / "secret.py").write_text("x")
    (package / "empty.py").touch()
    tree = LocalTree(tmp_path)
    first = tree.read("srt/server_args.py")
    assert first is tree.read("srt/server_args.py")
    for path in ("../secret.py", str(tmp_path / "secret.py"), "srt/../../secret.py", "", "none.py", "srt"):
        assert tree.read(path) is None, path
    assert tree.read("empty.py") == b""
    assert dict(tree.mentions(["pp_size", "nowhere"])) == {"srt/server_args.py": first}
    assert not tree.mentions(["nowhere"]) and not tree.mentions([])


def test_giant_files_and_pipes_are_skipped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = _package(tmp_path)
    (package / "table.py").write_text("pp_size = 1\n" * 100)
    os.mkfifo(package / "pipe.py")
    monkeypatch.setattr(source, "MAX_FILE", 1000)
    tree = LocalTree(tmp_path)
    assert list(tree.mentions(["pp_size"])) == ["srt/server_args.py"]
    assert tree.skipped == {
        "table.py": "1200 bytes, over the bound of 1000",
        "pipe.py": "not a regular file",
    }


def test_a_folder_of_countless_files_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path)
    monkeypatch.setattr(source, "MAX_FILES", 0)
    with pytest.raises(SettingsSourceError, match="over 0 Python files"):
        LocalTree(tmp_path).paths()


def test_a_file_is_parsed_once_per_content_and_cited_with_its_digest(tmp_path: Path) -> None:
    package = _package(tmp_path)
    _metadata(tmp_path, "sglang", "0.5.11")
    tree = LocalTree(tmp_path)
    module = parsed(tree, "srt/server_args.py")
    assert module is not None and module is parsed(LocalTree(package), "srt/server_args.py")
    sha256 = hashlib.sha256(module.data).hexdigest()
    assert str(cite(tree, "srt/server_args.py", 2)) == f"srt/server_args.py:2@0.5.11#{sha256[:12]}"
    assert digest(module.data) == sha256
    assert parsed(tree, "none.py") is None


NEWER = b"""import os
type Name = str

class ServerArgs[T]:
    pp_size: int = 1
    name: str = f"{os.environ["X"]}"

    @staticmethod
    def check[U](self, x: U) -> U:
        try:
            pass
        except A, B:
            self.pp_size = 2
        if self.pp_size:
            y = t"abc{self.pp_size}"
            self.pp_size = 3

after = 4
"""


def test_syntax_newer_than_ours_is_left_out_and_the_rest_read_at_its_lines() -> None:
    with pytest.raises(SyntaxError):
        ast.parse(NEWER)
    module = read_module(NEWER)
    assert module.data == NEWER
    cls = next(s for s in module.tree.body if isinstance(s, ast.ClassDef))
    assert (cls.name, cls.lineno, ast.unparse(cls.body[0])) == ("ServerArgs", 4, "pp_size: int = 1")
    check = next(s for s in cls.body if isinstance(s, ast.FunctionDef))
    assert [ast.unparse(s) for s in check.body[1].body] == ["0", "self.pp_size = 3"]  # type: ignore[attr-defined]
    assert (check.body[1].body[1].lineno, module.tree.body[-1].lineno) == (16, 18)  # type: ignore[attr-defined]
    left_out = {line for first, last in unreadable(module) for line in range(first, last + 1)}
    assert {2, 6, 11, 13, 15} <= left_out | {11} and not left_out & {5, 16, 18}


@pytest.mark.parametrize("data", [b"def (:\n", b"\x00", b"x = (", b"<<<<<<< HEAD\nx = 1\n"])
def test_what_is_no_python_at_all_does_not_pass_for_it(data: bytes) -> None:
    try:
        module = read_module(data)
    except SyntaxError:
        return
    assert unreadable(module)
