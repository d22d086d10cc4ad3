"""What the interpreter knows of the configuration classes of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals.model_classes import table as written
from evals.model_classes_read import Release as Source
from tools.interpreter.base import World
from tools.interpreter.library.model_classes import Table, positions, table
from tools.interpreter.library.model_classes_made import Made, Refused
from tools.interpreter.library.model_classes_run import Evaluator
from tools.interpreter.machine import Machine
from tools.interpreter.values import External, GuestRaise, Instance, Unknown
from tools.settings.evaluation import parsed_or_none
from tools.settings.source import LocalTree
from tools.settings.types import HostFacts

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
GUEST = """
from transformers import AutoConfig, LlamaConfig, PretrainedConfig
from transformers import CONFIG_MAPPING


class Own(PretrainedConfig):
    model_type = "own"
    attribute_map = {"n_layer": "num_hidden_layers"}

    def __init__(self, width=64, text_config=None, **kwargs):
        self.width = width
        self.text_config = LlamaConfig(**text_config) if isinstance(text_config, dict) else text_config
        super().__init__(**kwargs)


class Fields(PretrainedConfig):
    model_type = "fields"
    width: int = 8
    depth: int = 2

    def __post_init__(self, **kwargs):
        self.area = self.width * self.depth
        super().__post_init__(**kwargs)


AutoConfig.register("own", Own)


def load(path, **options):
    return AutoConfig.from_pretrained(path, **options)


def own(path):
    return Own.from_pretrained(path)


def fields(**values):
    return Fields(**values)


def facts(config):
    return (
        isinstance(config, PretrainedConfig),
        isinstance(config, LlamaConfig),
        config.__class__.__name__,
        hasattr(config, "sliding_window_pattern"),
        getattr(config, "q_lora_rank", "none"),
        config.get_text_config() is config,
    )


def listed(name):
    return name in CONFIG_MAPPING
"""


class Guest:
    """Follow functions of a small package, with model folders beside it."""

    def __init__(self, folder: Path, transformers: str, models: dict[str, dict[str, Any]]) -> None:
        package = folder / "sglang"
        (package / "srt").mkdir(parents=True)
        for name in ("__init__.py", "srt/__init__.py", "srt/server_args.py"):
            (package / name).write_text("")
        (package / "own.py").write_text(GUEST)
        self.folder = folder
        for name, config in models.items():
            (folder / name).mkdir()
            (folder / name / "config.json").write_text(json.dumps(config))
        tree = LocalTree(folder)
        host = HostFacts(read_file=lambda path: Path(path).read_bytes() if Path(path).is_file() else None)
        self.machine = Machine(
            tree,
            "sglang",
            World(host, {}, (), {"transformers": transformers}),
            lambda path: parsed_or_none(tree, path),
        )

    def call(self, name: str, *args: Any, **values: Any) -> Any:
        """Call a function of the package."""
        module = self.machine.module_named("sglang.own")
        assert module is not None
        return self.machine.call(self.machine.forced(module.globals, name), args, values)

    def load(self, name: str, **options: Any) -> Any:
        """Load a model's configuration."""
        return self.call("load", str(self.folder / name), **options)

    def get(self, held: Any, name: str) -> Any:
        """Return an attribute, or the text ``absent``."""
        try:
            return self.machine.get_attribute(held, name)
        except GuestRaise as raised:
            assert isinstance(raised.value, AttributeError)
            return "absent"


def made(version: str, values: dict[str, Any]) -> Made:
    """Return what a release makes of values."""
    known = table()
    assert known is not None
    release = known.release(version)
    return Evaluator(release).make(release.types[values["model_type"]], json.loads(json.dumps(values)))


# --- the table -----------------------------------------------------------------------------------------


def test_a_requirement_means_the_releases_it_allows() -> None:
    known = table()
    assert known is not None
    assert known.candidates("==4.57.1") == known.candidates("4.57.1") == ("4.57.1",)
    inside = known.candidates("<5,>=4.56.0")
    assert inside[0] == "4.56.0" and inside[-1].startswith("4.57") and len(inside) >= 4
    assert known.candidates("==4.57.3") == ("4.57.1", "4.57.6")
    assert known.candidates("==3.0.2") == known.candidates("==99.1") == known.candidates("<5") == ()
    assert known.candidates("@ git+https://example.org/x") == ()


def test_positions_are_written_as_runs() -> None:
    assert positions([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"


def test_a_class_adds_its_defaults_and_what_it_computes() -> None:
    old = made("4.51.1", LLAMA).attrs
    assert (old["num_key_value_heads"], old["head_dim"], old["rope_scaling"]) == (32, 128, None)
    assert old["torch_dtype"] == External("torch.bfloat16") and "dtype" not in old
    assert old["pad_token_id"] is None and old["tie_word_embeddings"] is False and old["is_decoder"] is False
    new = made("5.12.1", LLAMA).attrs
    assert new["dtype"] == External("torch.bfloat16") and "torch_dtype" not in new and "rope_theta" not in new
    assert new["rope_parameters"] == {"rope_theta": 500000.0, "rope_type": "default"}


def test_inner_configurations_are_made_by_their_own_classes() -> None:
    held = made("4.57.1", {"model_type": "gemma3", "text_config": {"num_hidden_layers": 12}})
    text = held.attrs["text_config"]
    assert (text.kind, held.attrs["vision_config"].kind) == ("Gemma3TextConfig", "SiglipVisionConfig")
    assert text.attrs["layer_types"].count("full_attention") == 2


def test_values_that_a_class_refuses_are_refused() -> None:
    with pytest.raises(Refused):
        made("4.57.1", {"model_type": "llama", "problem_type": "guessing"})


# --- as the source sees them ------------------------------------------------------------------------------


def test_an_attribute_is_the_models_the_classs_or_absent(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "==4.57.1", {"m": LLAMA})
    config = guest.load("m")
    assert guest.get(config, "vocab_size") == 128256
    assert guest.get(config, "head_dim") == 128
    assert guest.get(config, "torch_dtype") == guest.get(config, "dtype") == External("torch.bfloat16")
    assert guest.get(config, "num_experts") == "absent"
    assert guest.call("facts", config) == (True, True, "LlamaConfig", False, "none", True)
    assert guest.get(config, "name_or_path") == str(tmp_path / "m")


def test_binding_a_renamed_attribute_binds_the_one_that_is_kept(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "==4.57.1", {"m": {"model_type": "gpt2", "n_layer": 3}})
    config = guest.load("m")
    assert guest.get(config, "num_hidden_layers") == 3
    guest.machine.set_attribute(config, "num_hidden_layers", 4)
    assert config.attrs["n_layer"] == 4 and "num_hidden_layers" not in config.attrs


def test_releases_that_differ_leave_what_they_differ_in_unknown(tmp_path: Path) -> None:
    guest = Guest(tmp_path, ">=4.56.0,<5.13", {"m": LLAMA})
    config = guest.load("m")
    assert guest.get(config, "head_dim") == 128
    assert guest.get(config, "dtype") == External("torch.bfloat16")
    assert isinstance(guest.get(config, "rope_theta"), Unknown)
    assert isinstance(guest.get(config, "is_decoder"), Unknown)
    assert guest.get(config, "num_experts") == "absent"


def test_without_a_known_release_only_the_models_own_values_are_known(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "", {"m": LLAMA})
    config = guest.load("m")
    assert guest.get(config, "vocab_size") == 128256
    assert isinstance(guest.get(config, "head_dim"), Unknown)


def test_a_class_that_the_model_brings_is_not_guessed(tmp_path: Path) -> None:
    brought = {**LLAMA, "model_type": "brought", "auto_map": {"AutoConfig": "configuration.Brought"}}
    guest = Guest(tmp_path, "==5.12.1", {"m": brought})
    config = guest.load("m", trust_remote_code=True)
    assert guest.get(config, "hidden_size") == 4096
    assert isinstance(guest.get(config, "tie_word_embeddings"), Unknown)
    with pytest.raises(GuestRaise) as refused:
        guest.load("m", trust_remote_code=False)
    assert isinstance(refused.value.value, ValueError)


def test_an_unknown_model_type_is_refused(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "==5.12.1", {"m": {"model_type": "no_such_model"}})
    with pytest.raises(GuestRaise) as refused:
        guest.load("m")
    assert "does not recognize this architecture" in str(refused.value.value)
    assert guest.call("listed", "llama") is True and guest.call("listed", "no_such_model") is False


@pytest.mark.parametrize("version", ["4.57.1", "5.12.1"])
def test_a_class_of_the_package_inherits_what_the_base_binds(tmp_path: Path, version: str) -> None:
    values = {"model_type": "own", "n_layer": 5, "text_config": LLAMA, "torch_dtype": "float16", "more": [1]}
    guest = Guest(tmp_path, f"=={version}", {"m": values})
    for config in (guest.load("m"), guest.call("own", str(tmp_path / "m"))):
        assert config.cls.name == "Own"
        assert (guest.get(config, "width"), guest.get(config, "more")) == (64, [1])
        assert guest.get(config, "num_hidden_layers") == guest.get(config, "n_layer") == 5
        assert guest.get(config, "torch_dtype") == External("torch.float16")
        assert guest.get(config, "is_encoder_decoder") is False
        text = guest.get(config, "text_config")
        assert isinstance(text, Instance) and guest.get(text, "head_dim") == 128
        assert guest.machine.call(guest.machine.get_attribute(config, "get_text_config"), (), {}) is text
        assert guest.get(config, "pad_token_id") == (None if version[0] == "4" else "absent")


def test_annotated_names_of_a_class_are_its_fields(tmp_path: Path) -> None:
    guest = Guest(tmp_path, "==5.12.1", {})
    config = guest.call("fields", width=3, other=1)
    assert (guest.get(config, "area"), guest.get(config, "depth"), guest.get(config, "other")) == (6, 2, 1)
    assert guest.get(config, "return_dict") is True


# --- reading a release --------------------------------------------------------------------------------------

BASE = """
class PretrainedConfig:
    model_type = ""
    attribute_map = {}

    def __init__(self, **kwargs):
        self.pad_token_id = kwargs.pop("pad_token_id", None)
        for key, value in kwargs.items():
            setattr(self, key, value)
"""
TOY = """
from ...configuration_utils import PretrainedConfig


class ToyConfig(PretrainedConfig):
    model_type = "toy"
    attribute_map = {"hidden_size": "d_model"}

    def __init__(self, d_model=8, heads=2, layer_types=None, odd=None, **kwargs):
        self.d_model = d_model
        self.head_dim = d_model // heads
        self.layer_types = layer_types
        if self.layer_types is None:
            self.layer_types = ["full" if i % 2 else "window" for i in range(heads)]
        self.odd = measure(odd)
        super().__init__(**kwargs)


class LateConfig(ToyConfig):
    model_type = "late"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.early = self.first()
        self.last = 1

    def first(self):
        if self.odd:
            return 1
        return 2
"""


@pytest.fixture
def toy(tmp_path: Path) -> Evaluator:
    """Return the rules of a release of one class."""
    package = tmp_path / "transformers"
    (package / "models/toy").mkdir(parents=True)
    (package / "models/auto").mkdir()
    (tmp_path / "transformers-4.99.0.dist-info").mkdir()
    (package / "configuration_utils.py").write_text(BASE)
    (package / "models/toy/configuration_toy.py").write_text(TOY)
    (package / "models/auto/configuration_auto.py").write_text(
        'CONFIG_MAPPING_NAMES = dict([("toy", "ToyConfig")])\n'
    )
    return Evaluator(Table(written([Source(tmp_path)])).release("4.99.0"))


def test_a_constructor_is_stated_as_rules(toy: Evaluator) -> None:
    held = toy.make("ToyConfig", {"d_model": 12, "extra": 1})
    assert held.attrs == {
        "d_model": 12,
        "head_dim": 6,
        "layer_types": ["window", "full"],
        "odd": held.attrs["odd"],
        "pad_token_id": None,
        "extra": 1,
    }
    assert toy.read(held, "hidden_size") == 12 and not held.vague


def test_what_cannot_be_stated_stays_unknown(toy: Evaluator) -> None:
    assert isinstance(toy.make("ToyConfig", {}).attrs["odd"], Unknown)


def test_an_early_return_that_is_not_certain_leaves_the_result_unknown(toy: Evaluator) -> None:
    held = toy.make("LateConfig", {})
    assert isinstance(held.attrs["early"], Unknown) and held.attrs["last"] == 1
    assert isinstance(toy.read(held, "never_set"), Unknown)
