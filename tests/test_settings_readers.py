from __future__ import annotations

import pytest

from tests.settings_small import SmallTree
from tools.settings.readers import Reader, readers, readers_of

USES = {
    "branch": "if server_args.x:\n        run()",
    "branch ": "while server_args.x > 2:\n        run()",
    "branch  ": "done = [p for p in parts if server_args.x]",
    "loop bound": "for part in range(server_args.x):\n        run()",
    "ternary": "size = 1 if server_args.x else 2",
    "constructor argument": "worker = Worker(depth=server_args.x)",
    "argument": "run(server_args.x)",
    "arithmetic": "size = 2 * server_args.x",
    "test": "graphs = not server_args.x",
    "stored copy": "self.x = server_args.x",
    "returned": "return server_args.x",
    "check": "assert server_args.x, 'no'",
    "check ": "if server_args.x:\n        raise ValueError",
    "logged": "logger.info(f'{server_args.x}')",
    "logged ": "logger.info('%s', server_args.x)",
    "branch   ": "if getattr(server_args, 'x', None):\n        run()",
}


def of(text: str, name: str = "x") -> tuple[Reader, ...]:
    return readers(SmallTree({"srt/server_args.py": "", "srt/uses.py": text}), name)


@pytest.mark.parametrize("use", USES)
def test_uses(use: str) -> None:
    found = of(f"def go(self, server_args):\n    {USES[use]}\n")
    assert [reader.use for reader in found if reader.through is None] == [use.strip()]


ORDER = """
class Loop:
    def __init__(self, server_args):
        self.enabled = not server_args.x
        self.size = server_args.x + 1
        logger.info("%s", server_args.x)
    def run(self):
        if self.enabled:
            self.first()
            self.second()
        for part in range(self.size):
            run(part)
    def serve(self):
        while True:
            if self.server_args.x:
                step()
"""


def test_the_one_that_decides_most_leads() -> None:
    found = of(ORDER)
    assert [(r.use, r.cite.line, r.symbol, r.through) for r in found] == [
        ("branch", 15, "Loop.serve", None),
        ("branch", 8, "Loop.run", "self.enabled"),
        ("loop bound", 11, "Loop.run", "self.size"),
        ("arithmetic", 5, "Loop.__init__", None),
        ("test", 4, "Loop.__init__", None),
        ("logged", 6, "Loop.__init__", None),
    ]
    assert (found[1].text, found[1].decides, found[1].lines) == ("self.enabled", "self.first()", 2)


def test_what_an_early_return_decides() -> None:
    (found,) = of("def go(server_args):\n    if server_args.x:\n        return\n    a()\n    b()\n")
    assert found.branch is not None and found.branch.leaves
    assert (found.decides, found.lines) == ("return", 3)


@pytest.mark.parametrize(
    "text",
    [
        "def go(server_args):\n    server_args.x = 1\n",
        "def go(batch):\n    return batch.x\n",
        "def go():\n    return 'server_args.x'  # server_args.x\n",
        "def go(hf_config):\n    return getattr(hf_config, 'x', 1)\n",
    ],
)
def test_what_reads_nothing(text: str) -> None:
    assert of(text) == ()


def test_only_files_that_may_read_one_are_parsed() -> None:
    tree = SmallTree({"srt/server_args.py": "", "srt/a.py": "def f(server_args): return server_args.x\n"})
    assert len(readers(tree, "x")) == 1
    assert tree.asked == [("x",)]


def test_getters_and_views_of_newer_versions() -> None:
    files = {
        "srt/server_args.py": "",
        "srt/runtime_context.py": "def get_exec():\n    return EXEC\n",
        "srt/a.py": "def f():\n    if get_exec().graph.x:\n        return g()\n",
        "srt/arg_groups/b.py": "def hook(view):\n    return view.x > 1\n",
    }
    found = readers(SmallTree(files), "x")
    assert [(r.use, r.cite.path, r.resolving) for r in found] == [
        ("branch", "srt/a.py", False),
        ("returned", "srt/arg_groups/b.py", True),
    ]


def test_sections_of_vllm() -> None:
    files = {
        "engine/arg_utils.py": """
        class EngineArgs:
            enforce_eager: bool = ModelConfig.enforce_eager
        """,
        "config/model.py": "class ModelConfig:\n    enforce_eager: bool = False\n",
        "config/spec.py": "class SpeculativeConfig:\n    enforce_eager: bool = False\n",
        "v1/worker.py": """
        def warm(self):
            if not self.model_config.enforce_eager:
                self.capture()
            if self.speculative_config.enforce_eager:
                self.draft()
        """,
    }
    found = readers_of(SmallTree(files, "vllm"), ["enforce_eager"])["enforce_eager"]
    assert [(r.cite.path, r.cite.line) for r in found] == [("v1/worker.py", 3)]


def test_many_names_give_what_one_gives() -> None:
    names = [f"x{n}" for n in range(30)]
    body = "".join(f"    if server_args.{name}:\n        run()\n" for name in names)
    tree = SmallTree({"srt/server_args.py": "", "srt/a.py": f"def go(server_args):\n{body}"})
    together = readers_of(tree, names)
    assert together["x7"] == readers(tree, "x7") and len(together["x7"]) == 1
