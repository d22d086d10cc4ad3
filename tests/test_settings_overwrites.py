from __future__ import annotations

import pytest

from tests.settings_overwrite_parts import METHOD, only, tree_of
from tests.settings_small import SmallTree, settled
from tools.settings.judging import Judging
from tools.settings.overwrites import overwrites, overwrites_of
from tools.settings.types import Evaluation


def test_conditions_of_a_method_and_of_its_call() -> None:
    found = only(tree_of(METHOD))
    assert (found.symbol, found.text, found.value, found.known) == ("ServerArgs._handle", "True", True, True)
    assert [need.text for need in found.conditions] == [
        "self.mode",
        "<the loop at line 11 has an item>",
        "part != 1",
        "self.y > 1",
    ]
    assert next((n.path, n.line, n.column) for n in found.conditions) == ("srt/server_args.py", 9, 15)
    (path,) = found.paths
    assert (path.root, path.settled, found.every_path) == ("ServerArgs.__post_init__", True, True)
    assert [(c.text, [n.text for n in c.conditions]) for c in path.calls] == [
        ("self._handle()", ["not self.dummy"])
    ]


FORMS = {
    "attribute": "server_args.x = True",
    "holder attribute": "runner.server_args.x = True",
    "global": "get_global_server_args().x = True",
    "alias": "sa = runner.server_args\n    sa.x = True",
    "annotated": "other.x = True",
    "setattr": 'setattr(server_args, "x", True)',
    "object setattr": 'object.__setattr__(server_args, "x", True)',
    "loop": 'for name in ("w", "x"):\n        setattr(server_args, name, True)',
    "named loop": 'names = ["x"]\n    for name in names:\n        setattr(server_args, name, True)',
    "items": 'for k, v in {"x": True}.items():\n        setattr(server_args, k, v)',
    "named items": 'd = {"x": True}\n    for k, v in d.items():\n        setattr(server_args, k, v)',
    "dict": 'server_args.__dict__.update({"x": True})',
    "vars": 'vars(server_args).update({"x": True})',
    "replace": "return dataclasses.replace(server_args, x=True)",
    "method replace": "return server_args.replace(x=True)",
    "model copy": 'return server_args.model_copy(update={"x": True})',
    "spread": 'changes = {}\n    changes["x"] = True\n    return replace(server_args, **changes)',
    "update": "changes = {}\n    changes.update(x=True)\n    return replace(server_args, **changes)",
    "dict call": "changes = dict(x=True)\n    return replace(server_args, **changes)",
    "declaration": 'declare_resolution(server_args, "source", x=True)',
    "declared": 'found = {"x": True}\n    declare_resolution(server_args, "source", **found)',
    "conditional": 'declare_resolution(server_args, "source", **({"x": True} if other else {}))',
    "tuple": "server_args.w, server_args.x = False, True",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    text = f"def change(runner, server_args, other: 'ServerArgs'):\n    {FORMS[form]}\n"
    found = only(tree_of("class ServerArgs:\n    x: bool = False\n", srt__change=text))
    assert (found.symbol, found.text, found.known, found.value) == ("change", "True", True, True)
    assert found.on == ("copy" if "re" in found.form and found.form == "replace" else "settings")


NOT_ONES = {
    "read": "return server_args.x",
    "compare": "return server_args.x == True",
    "other object": "runner.x = True",
    "other setattr": 'setattr(runner, "x", True)',
    "annotation": "server_args.x: bool",
    "string": 'log("server_args.x = True")',
    "comment": "pass  # server_args.x = True",
    "other dict": 'd = {"x": True}\n    return d',
    "constructor": "return Batch(x=True)",
    "view": "view = resolving_view(server_args)\n    return view.x",
}


@pytest.mark.parametrize("form", NOT_ONES)
def test_what_is_no_assignment(form: str) -> None:
    text = f"def change(runner, server_args):\n    {NOT_ONES[form]}\n"
    assert overwrites(tree_of("class ServerArgs:\n    x: bool = False\n", srt__change=text), "x") == ()


def test_augmented_and_deleted() -> None:
    text = "def change(server_args):\n    server_args.x += 2\n    del server_args.x\n"
    found = overwrites(tree_of(srt__change=text), "x")
    assert [(o.form, o.text) for o in found] == [("attribute", "server_args.x + 2"), ("delete", "")]


HOOKS = """
MODEL_OVERRIDES = {"SomeModel": {"x": 1}}

@_register_for("OtherModel")
def _other(server_args, hf_config) -> dict:
    overrides = {}
    if hf_config.deep:
        return overrides
    overrides["x"] = 2
    return overrides

@register_post_process
def _pass(view) -> dict:
    if view.y > 1:
        return {"x": 3}
    return {}

def words() -> list:
    return {"x": 4}
"""
PIPELINE = """
def run_resolution_pipeline(server_args):
    if server_args.dummy:
        return
    run_post_process_pass(server_args, _pass)
"""
RESOLVE = """
class ServerArgs:
    x: int = 0
    def resolve_once(self):
        run_resolution_pipeline(self)
"""


def test_what_hooks_declare() -> None:
    tree = tree_of(RESOLVE, srt__arg_groups__hooks=HOOKS, srt__arg_groups__pipeline=PIPELINE)
    table, other, last = overwrites(tree, "x")
    assert (table.form, table.value) == ("table", 1)
    assert [need.text for need in other.conditions] == [
        "<what @_register_for('OtherModel') registers is called>",
        "not hf_config.deep",
    ]
    assert (other.form, other.value) == ("declaration", 2)
    assert [need.text for need in last.conditions] == ["view.y > 1"]
    assert [call.text for call in last.paths[0].calls] == [
        "run_resolution_pipeline(self)",
        "run_post_process_pass(server_args, _pass)",
    ]
    assert (last.paths[0].root, last.paths[0].settled) == ("ServerArgs.resolve_once", True)


def test_settings_in_force_are_updated() -> None:
    context = "def get_context():\n    return CONTEXT\n"
    text = """
    def fall_back(kernel):
        if not kernel:
            get_context().override("source", x="none")
            kernel.override(x=1)
    """
    found = only(tree_of(srt__runtime_context=context, srt__kernels=text))
    assert (found.form, found.value, [n.text for n in found.conditions]) == (
        "override",
        "none",
        ["not kernel"],
    )


PAIR = """
class Worker:
    def __init__(self, server_args, algorithm):
        backup = server_args.x
        server_args.x = True
        build()
        self.draft.server_args.x = (
            backup
        )
        server_args.y = other.server_args.y
"""


def test_a_pair_that_saves_and_restores() -> None:
    changed, restored = overwrites(tree_of(srt__worker=PAIR), "x")
    assert changed.pair is not None and restored.pair is not None
    assert (changed.pair.role, changed.pair.saved, changed.pair.restored) == ("temporary", 4, 7)
    assert (restored.pair.role, restored.pair.saved) == ("restore", 4)
    assert only(tree_of(srt__worker=PAIR), "y").pair is None


def test_a_backup_in_a_tuple_and_a_block() -> None:
    text = """
    def get_spec():
        return SPEC
    """
    worker = """
    def swap(self):
        backup = (self.w, get_spec().x)
        get_spec().override(x=1)
        try:
            yield
        finally:
            get_spec().override(x=backup[1])

    def during(self):
        with get_spec().override(x=2):
            load()
    """
    found = overwrites(tree_of(srt__runtime_context=text, srt__worker=worker), "x")
    assert [(o.text, o.pair and o.pair.role) for o in found] == [
        ("1", "temporary"),
        ("backup[1]", "restore"),
        ("2", "temporary"),
    ]


WORKERS = """
class Scheduler:
    def __init__(self, server_args):
        self.limit = server_args.limit
        if self.limit > 1:
            self.build(server_args)
    def build(self, server_args):
        Draft(server_args)

class Draft:
    def __init__(self, server_args):
        server_args.x = True

def main(server_args):
    Scheduler(server_args)
"""


def test_the_way_from_the_entry_point() -> None:
    found = only(tree_of(srt__workers=WORKERS))
    (path,) = found.paths
    assert [call.text for call in path.calls] == [
        "Scheduler(server_args)",
        "self.build(server_args)",
        "Draft(server_args)",
    ]
    judging = Judging(found.tree, settled(limit=1, x=False))
    outcome = judging.outcome(found)
    assert (outcome.result, outcome.cite and outcome.cite.line) == ("cannot fire", 5)
    assert outcome.because == "self.limit > 1 is false: limit is 1"
    assert Judging(found.tree, settled(limit=2, x=False)).outcome(found).result == "fires"


def test_calls_in_a_circle_end() -> None:
    text = """
    def first(server_args):
        server_args.x = True
        second(server_args)
    def second(server_args):
        first(server_args)
    """
    found = only(tree_of(srt__circle=text))
    assert found.paths and not any(path.settled for path in found.paths)
    outcome = Judging(found.tree, settled(x=False)).outcome(found)
    assert (outcome.result, outcome.needs) == ("unknown", ("whether its function is called",))


def test_many_callers_are_not_all_of_them() -> None:
    calls = "\n".join(f"def caller_{n}(server_args):\n    change(server_args)" for n in range(12))
    text = f"def change(server_args):\n    server_args.x = True\n{calls}\n"
    assert not only(tree_of(srt__many=text)).every_path


VLLM = {
    "engine/arg_utils.py": """
    class EngineArgs:
        enforce_eager: bool = ModelConfig.enforce_eager
        kv_dtype: str = CacheConfig.cache_dtype
        def create_engine_config(self):
            model_config = ModelConfig(enforce_eager=self.enforce_eager)
            return VllmConfig(model_config)
    """,
    "config/model.py": """
    class ModelConfig:
        enforce_eager: bool = False
        def __post_init__(self):
            self._verify()
        def _verify(self):
            if current_platform.is_rocm():
                self.enforce_eager = True
    class SpeculativeConfig:
        enforce_eager: bool | None = None
        def __post_init__(self):
            self.enforce_eager = False
    """,
    "config/cache.py": "class CacheConfig:\n    cache_dtype: str = 'auto'\n    mode: int = 0\n",
    "config/vllm.py": """
    LEVELS = {"cache_config": {"mode": 3}}
    class VllmConfig:
        model_config: ModelConfig
        cache_config: CacheConfig
        def __post_init__(self):
            self.cache_config.cache_dtype = "fp8"
            self._set_config_default(self.cache_config, "mode", 2)
        def other(self, draft_model_config, cfg: ModelConfig):
            draft_model_config.enforce_eager = True
            cfg.enforce_eager = False
    """,
}


def test_sections_of_vllm() -> None:
    tree = SmallTree(VLLM, "vllm")
    found = overwrites_of(tree, ["enforce_eager", "kv_dtype", "cache_config.mode"])
    assert [(o.cite.path, o.symbol, o.text) for o in found["enforce_eager"]] == [
        ("config/model.py", "ModelConfig._verify", "True"),
        ("config/vllm.py", "VllmConfig.other", "False"),
    ]
    assert [(o.symbol, o.value) for o in found["kv_dtype"]] == [("VllmConfig.__post_init__", "fp8")]
    assert [(o.form, o.value) for o in found["cache_config.mode"]] == [("table", 3), ("setattr", 2)]


def test_what_is_logged_beside_it() -> None:
    text = """
    def change(server_args):
        if server_args.y:
            logger.warning("x is off " "because of y")
            server_args.x = True
        server_args.x = False
    """
    first, second = overwrites(tree_of(srt__change=text), "x")
    assert (first.logged, second.logged) == ("x is off because of y", None)


def test_files_that_cannot_be_cut_or_parsed() -> None:
    text = '''
    class ServerArgs:
        """Say
        def nothing(self):
        """
        def __post_init__(self):
            text = """
    def inner():
            """
            if self.y:
                self.x = 1
    '''
    found = only(tree_of(text, srt__broken="def f(:\n  server_args.x = 1\n"))
    assert [need.text for need in found.conditions] == ["self.y"]
    assert found.cite.line == 11


def test_a_function_that_was_never_entered_says_nothing() -> None:
    found = only(tree_of(srt__workers=WORKERS))
    evaluation = Evaluation({}, True, reached=frozenset({("srt/server_args.py", 3)}))
    assert Judging(found.tree, evaluation).outcome(found).result == "unknown"
