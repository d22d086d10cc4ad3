"""Only the needed files of a wheel travel, and none that its pinned RECORD does not prove."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evals.lab import package_pip, package_ranges
from evals.lab.package import PackageError, Pin, fetch
from evals.lab.package_unpack import Listed
from tests.test_lab_package import FILES, WHEEL

RECORD = "leadlinedemo-1.0.dist-info/RECORD"
PAD = {f"leadlinedemo/weights{n}.bin": "0123456789abcdef" * (64 << 10) for n in range(3)}


def row(name: str, text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(text)}\n"


def build(path: Path, files: dict[str, str], changed: dict[str, str | None] | None = None) -> Pin:
    """Write a wheel with its RECORD; ``changed`` files are other than RECORD says (None: left out)."""
    record = "".join(row(name, text) for name, text in files.items()) + f"{RECORD},,\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, RECORD: record, **(changed or {})}.items():
            if text is not None:
                archive.writestr(name, text)
    return Pin(
        hashlib.sha256(path.read_bytes()).hexdigest(), record=hashlib.sha256(record.encode()).hexdigest()
    )


def some_files() -> dict[str, str]:
    files = {name: text for name, text in FILES.items() if name != RECORD}
    front = {"leadlinedemo/__init__.py": files.pop("leadlinedemo/__init__.py")}
    return {**front, **PAD, "leadlinedemo/last.py": "LAST = 1\n", **files}


class Index(ThreadingHTTPServer):
    """Serve one wheel and its page as a package index does, and note what was asked for."""

    daemon_threads = True

    def __init__(self, wheel: Path, stated: str, *, ranges: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheel = wheel
        self.stated = stated
        self.ranges = ranges
        self.spoil: Callable[[bytes], bytes] = lambda data: data
        self.asked: list[str] = []
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        own = self.server
        if not self.path.endswith(".whl"):
            page = f'<a href="/files/{WHEEL}#sha256={own.stated}" data-core-metadata="true">{WHEEL}</a>'
            metadata = FILES["leadlinedemo-1.0.dist-info/METADATA"]
            return self.answer(200, (metadata if self.path.endswith(".metadata") else page).encode())
        data, wanted = own.wheel.read_bytes(), self.headers.get("Range") or ""
        own.asked.append(wanted)
        found = re.fullmatch(r"bytes=(\d*)-(\d+)", wanted)
        if found is None or not own.ranges:
            return self.answer(200, data)
        start = int(found[1]) if found[1] else max(0, len(data) - int(found[2]))
        end = int(found[2]) + 1 if found[1] else len(data)
        own.sent += end - start
        return self.answer(206, own.spoil(data[start:end]), f"bytes {start}-{end - 1}/{len(data)}")

    def answer(self, status: int, body: bytes, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Index]]:
    """Let pip find one wheel on a loopback server and nothing anywhere else."""
    servers: list[Index] = []
    monkeypatch.setattr(package_ranges, "TAIL", 2048)
    monkeypatch.setattr(package_ranges, "GAP", 4096)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)

    def start(stated: str, *, ranges: bool = True) -> Index:
        index = Index(tmp_path / WHEEL, stated, ranges=ranges)
        monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/simple")
        threading.Thread(target=index.serve_forever, daemon=True).start()
        servers.append(index)
        return index

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def contents(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_only_the_needed_parts_travel_in_few_requests(tmp_path: Path, serve: Callable[..., Index]) -> None:
    files = some_files()
    pin = build(tmp_path / WHEEL, files)
    index = serve(pin.sha256)
    said: list[str] = []
    folder = fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin, progress=said.append)
    kept = {n: t for n, t in files.items() if n.endswith((".py", "data.json")) or ".dist-info/" in n}
    found = contents(folder)
    assert {**kept, RECORD: found[RECORD]} == found
    assert all(index.asked) and len(index.asked) <= 4, index.asked
    assert index.sent < 10_000 < (tmp_path / WHEEL).stat().st_size
    assert any(re.search(r"reading leadlinedemo.*MB in \d requests", line) for line in said)
    assert not any("downloading" in line for line in said)


def test_without_ranges_the_whole_wheel_comes(tmp_path: Path, serve: Callable[..., Index]) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    index = serve(pin.sha256, ranges=False)
    said: list[str] = []
    folder = fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin, progress=said.append)
    assert (folder / "leadlinedemo" / "last.py").read_text() == "LAST = 1\n"
    assert [line for line in said if "answers 200 to a request for a range" in line]
    assert "downloading leadlinedemo 1.0 (once)" in said
    assert index.sent == 0


def test_both_ways_keep_the_same_files(tmp_path: Path, serve: Callable[..., Index]) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    index = serve(pin.sha256)
    by_parts = fetch("leadlinedemo", "1.0", tmp_path / "a", pin=pin)
    index.ranges = False
    whole = fetch("leadlinedemo", "1.0", tmp_path / "b", pin=pin)
    assert contents(by_parts) == contents(whole)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"leadlinedemo/last.py": "LAST = 2\n"}, "last.py in .* is not what RECORD lists"),
        ({"leadlinedemo/last.py": "LAST = 1000\n"}, "last.py in .* is not what RECORD lists"),
        ({"leadlinedemo/last.py": None}, "lacks leadlinedemo/last.py"),
        ({RECORD: "leadlinedemo/last.py,,\n"}, "RECORD in .* has the digest .*, pinned is"),
    ],
)
def test_a_server_that_lies_about_contents_is_refused(
    tmp_path: Path, serve: Callable[..., Index], changed: dict[str, str | None], message: str
) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    build(tmp_path / WHEEL, some_files(), changed)
    serve(pin.sha256)
    with pytest.raises(PackageError, match=message):
        fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin)
    assert not [path for path in (tmp_path / "cache" / "packages").iterdir() if path.is_dir()]


@pytest.mark.parametrize("way", [package_pip.by_report, package_pip.by_finder])
def test_pip_says_where_a_wheel_lies(
    tmp_path: Path, serve: Callable[..., Index], way: Callable[..., package_pip.Located]
) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    index = serve(pin.sha256)
    found = way("leadlinedemo", "1.0", pin, tmp_path)
    assert found == package_pip.Located(f"{index.url}/files/{WHEEL}", pin.sha256)


def test_an_index_that_states_another_digest_is_refused(tmp_path: Path, serve: Callable[..., Index]) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    index = serve("0" * 64)
    with pytest.raises(PackageError, match=f"has the digest {'0' * 64}, pinned is {pin.sha256}"):
        fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin)
    assert index.asked == []


def test_a_range_cut_short_falls_back_to_the_whole(tmp_path: Path, serve: Callable[..., Index]) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    index = serve(pin.sha256)
    index.spoil = lambda data: data[:-1]
    said: list[str] = []
    folder = fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin, progress=said.append)
    assert "downloading leadlinedemo 1.0 (once)" in said
    assert (folder / "leadlinedemo" / "last.py").is_file()


def test_damaged_bytes_are_an_error_not_a_crash(tmp_path: Path, serve: Callable[..., Index]) -> None:
    pin = build(tmp_path / WHEEL, some_files())
    index = serve(pin.sha256)
    index.spoil = lambda data: bytes(len(data))
    with pytest.raises(PackageError, match="is damaged"):
        fetch("leadlinedemo", "1.0", tmp_path / "cache", pin=pin)


def test_groups_join_neighbours_and_stay_below_the_size_of_a_part() -> None:
    part, gap = package_ranges.PART, package_ranges.GAP
    places = {"a": (0, 10), "b": (10 + gap, 20 + gap), "c": (30 + 3 * gap, part), "d": (part, part + 5)}
    rows = [Listed(name, "", 0) for name in "dcba"]
    groups = [
        (span.start, span.end, "".join(r.path for r in span.rows))
        for span in package_ranges.spans(rows, places)
    ]
    assert groups == [(0, 20 + gap, "ab"), (30 + 3 * gap, part + 5, "cd")]
