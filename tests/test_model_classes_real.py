"""The table of configuration classes agrees with transformers itself, where that is installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.model_classes_real import compare, made_up, real
from tools.interpreter.library.model_classes import table

CACHE = Path.home() / ".cache/leadline/truth-env"
MODELS = Path(__file__).parents[1] / "evals/truth/models.json"
TYPES = (
    "llama",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen2_5_vl",
    "qwen2_vl",
    "mistral",
    "mixtral",
    "gemma2",
    "gemma3",
    "phi3",
    "deepseek_v3",
    "gpt2",
    "gpt_neox",
    "falcon",
    "bert",
    "t5",
    "whisper",
    "bart",
    "opt",
    "bloom",
    "olmo2",
    "cohere2",
    "granite",
    "mamba2",
    "jamba",
    "bamba",
    "glm4",
    "llava",
    "pixtral",
    "mllama",
    "internvl",
    "siglip",
    "clip",
    "starcoder2",
)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.51.1", "4.57.1", "5.12.1", "5.19.0"])
def test_every_attribute_is_the_one_that_transformers_makes(version: str) -> None:
    folder, python = CACHE / f"transformers-{version}", CACHE / "venv/bin/python"
    if not python.exists() or not folder.is_dir():
        pytest.skip("transformers is not installed for the ground truth")
    known = table()
    assert known is not None
    release = known.release(version)
    configs = made_up(release, 7, [t for t in TYPES if t in release.types])
    configs += [
        model
        for model in json.loads(MODELS.read_text()).values()
        if model.get("model_type") in release.types and "auto_map" not in model
    ]
    counted = compare(release, configs, real(python, folder, configs))
    assert counted.differences == []
    assert counted.same > 4000 and counted.unknown < counted.same / 20
