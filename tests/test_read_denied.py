"""Files that hold secrets are not read, by whatever path and tool they are asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools import grep, read_file, run
from tools.artifacts import ArtifactStore
from tools.contract import ToolContext, ToolError, ToolSettings
from tools.local import LocalHost
from tools.policy_paths import read_denied

PLAIN = "nothing-here-looks-like-a-secret"
"""Stands in every denied file: no redaction knows it, so only the path can keep it back."""

DENIED = [
    ".ssh/id_ed25519",
    ".ssh/deploy",
    ".kube/config",
    ".netrc",
    ".pgpass",
    ".my.cnf",
    ".docker/config.json",
    ".aws/credentials",
    ".azure/token.json",
    ".config/gcloud/credentials.db",
    ".config/gh/hosts.yml",
    ".config/rclone/rclone.conf",
    ".oci/config",
    ".terraform.d/credentials.tfrc.json",
    ".git-credentials",
    ".bash_history",
    ".cache/huggingface/token",
    ".gnupg/private-keys-v1.d/x.key",
    "app/application_default_credentials.json",
    "app/tls.key",
    "app/server.pem",
    "app/ssh_host_rsa_key",
    "etc/shadow",
    "etc/gshadow-",
    "etc/kubernetes/admin.conf",
    "etc/sudo.keytab",
    "run/secrets/token",
    "prod.kubeconfig",
]
EVERY_WAY = (".ssh/id_ed25519", ".kube/config", ".netrc", "etc/shadow", "app/tls.key")
"""Of these each way to the file is tried; of the others the path itself and a link."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with every kind of denied file, and an ordinary one."""
    folder = tmp_path / "home"
    for name in [*DENIED, "app/notes.txt"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(PLAIN + "\n")
    return folder


@pytest.fixture
def ctx(tmp_path: Path) -> ToolContext:
    store = ArtifactStore(tmp_path / "store")
    return ToolContext("t1", {"local": LocalHost("local")}, store, lambda data: data, ToolSettings())


def ways(folder: Path, name: str, number: int) -> Iterator[str]:
    """Yield paths that lead to the same file."""
    path = folder / name
    links = folder.parent / f"links{number}"
    links.mkdir()
    (links / "plain.txt").symlink_to(path)
    (links / "again.txt").symlink_to(links / "plain.txt")
    (links / "relative.txt").symlink_to(os.path.relpath(path, links))
    (links / "folder").symlink_to(path.parent)
    (links / "root").symlink_to("/")
    yield str(path)
    yield str(path).replace("/", "//")
    yield f"{path.parent}/./{path.name}"
    yield f"{path.parent}/../{path.parent.name}/{path.name}"
    yield f"/proc/self/root{path}"
    yield f"/proc/1/root{path}"
    yield f"/proc/thread-self/root/{path}"
    yield f"/proc/self/root/proc/1/root{path}"
    yield f"{links}/plain.txt"
    yield f"{links}/again.txt"
    yield f"{links}/relative.txt"
    yield f"{links}/folder/{path.name}"
    yield f"{links}/root{path}"


async def _shown(tool: Any, ctx: ToolContext, **values: Any) -> str:
    """Return what a tool shows and keeps; nothing when it refuses."""
    before = len(ctx.kept)
    try:
        view = await tool.run(ctx, tool.Args(**values))
    except ToolError:
        view = {}
    kept = [ctx.store.get(ref.sha256).decode("utf-8", "replace") for ref in ctx.kept[before:]]
    return json.dumps(view.get("results", view.get("text", view.get("stdout", "")))) + "".join(kept)


@pytest.mark.threat(2)
@pytest.mark.threat(8)
async def test_no_way_leads_to_a_denied_file(
    home: Path, ctx: ToolContext, record_property: Callable[[str, object], None]
) -> None:
    read: list[tuple[str, str]] = []
    cases = 0
    for number, name in enumerate(DENIED):
        every = list(ways(home, name, number))
        for path in every if name in EVERY_WAY else (every[0], every[8]):
            for tool, values in (
                (read_file, {"path": path}),
                (run, {"command": f"cat {path}"}),
                (grep, {"path": path, "pattern": "looks-like"}),
            ):
                cases += 1
                if PLAIN in await _shown(tool, ctx, **values):
                    read.append((tool.__name__, path))
    record_property("cases", cases)
    assert cases > 300
    assert read == []


async def test_an_ordinary_file_beside_them_is_read(home: Path, ctx: ToolContext) -> None:
    path = str(home / "app/notes.txt")
    assert PLAIN in await _shown(read_file, ctx, path=path)
    assert PLAIN in await _shown(run, ctx, command=f"cat {path}")
    assert PLAIN in await _shown(grep, ctx, path=path, pattern="looks-like")


@pytest.mark.threat(2)
async def test_a_search_of_a_folder_leaves_denied_files_out(home: Path, ctx: ToolContext) -> None:
    view = await grep.run(ctx, grep.Args(path=str(home), pattern="looks-like"))
    assert [result["path"] for result in view["results"]] == [str(home / "app/notes.txt")]
    assert len(view["not_permitted"]) == len(DENIED) and not view["complete"]


@pytest.mark.threat(2)
@pytest.mark.parametrize(
    "path",
    [
        "/proc/1/environ",
        "/proc/self/environ",
        "/proc/self/task/1/environ",
        "/proc/1/mem",
        "/proc/self/mem",
        "/proc/1/auxv",
        "/proc/1/map_files/400000-401000",
        "/proc/1/fd/3",
        "/proc/kcore",
        "/proc/kmsg",
        "/dev/mem",
        "/dev/sda",
        "/dev/zero",
        "/dev/shm/x",
        "/dev/stdin",
        "/dev/fd/0",
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/shadow-",
        "/root/.ssh/id_rsa",
    ],
)
async def test_memory_devices_and_password_files_are_not_read(ctx: ToolContext, path: str) -> None:
    for way in (path, "/" + path, f"/proc/self/root{path}", f"/proc/1/root{path}", path.upper()):
        assert read_denied(way), way
    for tool, values in ((read_file, {"path": path}), (run, {"command": f"cat {path}"})):
        with pytest.raises(ToolError):
            await tool.run(ctx, tool.Args.model_validate(values))
    assert ctx.kept == []
