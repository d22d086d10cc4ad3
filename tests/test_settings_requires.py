"""What a package's metadata requires is what surely lies beside it."""

from __future__ import annotations

import pytest

from tests.settings_small import SmallTree
from tools.settings.requires import required
from tools.settings.types import HostFacts


class Packaged(SmallTree):
    """A package with metadata."""

    metadata: bytes | None = None

    def distribution(self, name: str) -> bytes | None:
        return self.metadata if name == "METADATA" else None


def said(*lines: str, name: str = "sglang", facts: HostFacts | None = None) -> dict[str, str]:
    tree = Packaged({})
    rows = [f"Requires-Dist: {line}" for line in lines]
    head = "\n".join(("Metadata-Version: 2.1", f"Name: {name}", *rows))
    tree.metadata = f"{head}\n\nRequires-Dist: of the description\n".encode()
    return required(tree, facts or HostFacts())


def test_a_package_without_metadata_requires_nothing_that_is_known() -> None:
    assert required(Packaged({}), HostFacts()) == {}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("torch==2.9.1", {"torch": "==2.9.1"}),
        ("Flash_Attn (>=2,<3)", {"flash-attn": ">=2,<3"}),
        ("uvicorn[standard]", {"uvicorn": ""}),
        ("huggingface.hub", {"huggingface-hub": ""}),
        ("tomli; python_version < '3.11'", {}),
        ("pywin32; sys_platform == 'win32'", {}),
        ('triton ; platform_machine == "x86_64"', {}),
        ("setproctitle; sys_platform == 'linux'", {"setproctitle": ""}),
    ],
)
def test_a_requirement_counts_unless_its_condition_may_not_hold(line: str, found: dict[str, str]) -> None:
    assert said(line) == found


def test_a_requirement_of_an_extra_counts_where_every_extra_that_serves_has_it() -> None:
    lines = (
        "requests",
        'torch==2.8.0; extra == "srt"',
        'sgl-kernel==0.3; extra == "srt"',
        'torch==2.8.0+rocm; extra == "srt-hip"',
        'pytest; extra == "test"',
    )
    assert said(*lines) == {"requests": "", "torch": ""}
    assert said(*lines, facts=HostFacts(platform="cuda")) == {
        "requests": "",
        "torch": "==2.8.0",
        "sgl-kernel": "==0.3",
    }
    assert said(*lines, facts=HostFacts(platform="hip"))["torch"] == "==2.8.0+rocm"
    assert said(*lines, facts=HostFacts(platform="xpu")) == {"requests": ""}


def test_an_extra_that_names_others_brings_what_they_require_however_they_name_each_other() -> None:
    lines = (
        'sglang[runtime_common,srt]; extra == "srt"',
        'numpy; extra == "runtime-common"',
        'torch; extra == "srt"',
    )
    assert said(*lines) == {"numpy": "", "torch": ""}


def test_the_extra_for_blackwell_is_installed_only_on_such_cards() -> None:
    lines = ('torch==2.9; extra == "srt"', 'torch==2.10; extra == "blackwell"')
    hopper = HostFacts(platform="cuda", gpu_arch="sm90")
    blackwell = HostFacts(platform="cuda", gpu_arch="sm120")
    assert said(*lines, facts=hopper) == {"torch": "==2.9"}
    assert said(*lines, facts=blackwell) == {"torch": ""}
    assert said(*lines, facts=HostFacts(platform="hip")) == {}


def test_what_is_required_without_a_condition_stands_above_an_extra() -> None:
    assert said("torch==2.9", 'torch==2.10; extra == "srt"') == {"torch": "==2.9"}
