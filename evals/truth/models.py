"""Lay model folders with published shapes and no weights: argument code reads configurations alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_CONFIGS: Final = Path(__file__).with_name("models.json")
_GENERATION: Final = {"do_sample": True, "temperature": 0.6, "top_p": 0.95}
_ADAPTER: Final = {
    "peft_type": "LORA",
    "r": 16,
    "lora_alpha": 32,
    "target_modules": ["q_proj", "v_proj"],
    "base_model_name_or_path": "llama-8b",
}
_REMOTE: Final = """from transformers import PretrainedConfig


class LLaDA2MoeConfig(PretrainedConfig):
    model_type = "llada2_moe"
"""
"""A configuration class as repositories bring it along; engines load it with ``--trust-remote-code``."""
WEIGHTS: Final = {
    "llama-8b": 18,
    "qwen3-moe-235b": 16,
    "deepseek-v3": 14,
    "kimi-k2.5": 12,
    "qwen3-next-80b": 9,
    "kimi-k2": 8,
    "llama-70b": 8,
    "gpt-oss-120b": 6,
    "deepseek-v3-bf16": 5,
    "lfm2-1.2b": 5,
    "qwen2.5-vl-7b": 5,
}
"""How often random lines serve each; what is not named only stands in chosen lines."""


def configs() -> dict[str, dict[str, Any]]:
    """Return every model's configuration by the name of its folder."""
    found: dict[str, dict[str, Any]] = json.loads(_CONFIGS.read_text("utf-8"))
    return found


def write(folder: Path) -> None:
    """Write the model folders; files that are already right stay, since another run may be reading them."""
    files = {f"{name}/config.json": _json(config) for name, config in configs().items()}
    files |= {f"{name}/generation_config.json": _json(_GENERATION) for name in configs()}
    files["llada2-mini/configuration_llada2_moe.py"] = _REMOTE
    files["lora-a/adapter_config.json"] = _json(_ADAPTER)
    for name, text in files.items():
        path = folder / name
        if path.is_file() and _same(path, text):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)


def _same(path: Path, text: str) -> bool:
    held = path.read_text("utf-8")
    if path.suffix != ".json":
        return held == text
    return bool(json.loads(held) == json.loads(text))
