"""An engine's source is fetched once, by digest, whoever asks and whatever is killed."""

from __future__ import annotations

import hashlib
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from evals.lab.package import PINS, PackageError, Pin, fetch

WHEEL = "leadlinedemo-1.0-cp311-cp311-manylinux_2_34_x86_64.whl"
FILES = {
    "leadlinedemo/__init__.py": "VALUE = 1\n",
    "leadlinedemo/srt/data.json": "{}",
    "leadlinedemo/srt/big.json": "x" * (300 << 10),
    "leadlinedemo/core.so": "binary",
    "leadlinedemo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: leadlinedemo\nVersion: 1.0\n",
    "leadlinedemo-1.0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_34_x86_64\n"
    ),
    "leadlinedemo-1.0.dist-info/RECORD": "",
}


def make_wheel(folder: Path, extra: dict[str, str] | None = None) -> Pin:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        for name, text in {**FILES, **(extra or {})}.items():
            archive.writestr(name, text)
    return Pin(hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip find wheels in one folder and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_only_source_metadata_and_small_data_are_unpacked(tmp_path: Path, index: Path) -> None:
    pin = make_wheel(index)
    folder = fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin)
    assert folder.name == f"leadlinedemo-1.0-{pin.sha256[:12]}"
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(FILES) - {"leadlinedemo/core.so", "leadlinedemo/srt/big.json"}


def test_many_callers_download_once_and_a_killed_one_leaves_nothing(tmp_path: Path, index: Path) -> None:
    pin = make_wheel(index)
    packages = tmp_path / "cache" / "packages"
    left_over = packages / f".leadlinedemo-1.0-{pin.sha256[:12]}.killed" / "unpacked"
    left_over.mkdir(parents=True)
    said: list[str] = []
    folders: list[Path] = []

    def ask() -> None:
        folders.append(fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin, progress=said.append))

    callers = [threading.Thread(target=ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(set(folders)) == 1 and len(folders) == 3
    assert said.count("downloading leadlinedemo 1.0 (once)") == 1
    assert [path.name for path in packages.iterdir() if path.is_dir()] == [folders[0].name]


def test_offline_and_not_cached_says_what_to_run(tmp_path: Path, index: Path) -> None:
    with pytest.raises(PackageError) as caught:
        fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=Pin("0" * 64))
    text = str(caught.value)
    assert "could not be downloaded" in text and "No matching distribution" in text
    assert "pip download" in caught.value.do and "copy the wheel" in caught.value.do
    assert sys.executable not in text


def test_another_digest_is_refused(tmp_path: Path, index: Path) -> None:
    make_wheel(index)
    with pytest.raises(PackageError, match="has the digest"):
        fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=Pin("0" * 64))
    assert not [path for path in (tmp_path / "cache" / "packages").iterdir() if path.is_dir()]


def test_a_wheel_laid_into_the_cache_needs_no_network(tmp_path: Path, index: Path) -> None:
    pin = make_wheel(tmp_path / "elsewhere")
    packages = tmp_path / "cache" / "packages"
    packages.mkdir(parents=True)
    (tmp_path / "elsewhere" / WHEEL).rename(packages / WHEEL)
    assert (fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin) / "leadlinedemo").is_dir()


def test_a_wheel_that_reaches_out_of_its_folder_is_refused(tmp_path: Path, index: Path) -> None:
    pin = make_wheel(index, {"../outside.py": "bad = 1\n"})
    with pytest.raises(PackageError, match=r"holds the path \.\./outside\.py"):
        fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin)
    assert not (tmp_path / "cache" / "packages" / "outside.py").exists()


def test_an_unpinned_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no digest is pinned"):
        fetch("sglang", "0.0.0", tmp_path)
    assert ("sglang", "0.5.11") in PINS
