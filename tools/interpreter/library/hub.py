"""``huggingface_hub`` and names of ``transformers``: what a model given as a folder makes of them."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from tools.interpreter.library.surroundings import read
from tools.interpreter.values import GuestRaise, Native, Unknown, unknown_of

if TYPE_CHECKING:
    from tools.interpreter.machine import Machine

_TRUE: Final = frozenset({"1", "ON", "YES", "TRUE"})
_NAMES: Final = {
    "CONFIG_NAME": "config.json",
    "GENERATION_CONFIG_NAME": "generation_config.json",
    "SAFE_WEIGHTS_INDEX_NAME": "model.safetensors.index.json",
    "SAFE_WEIGHTS_NAME": "model.safetensors",
    "WEIGHTS_NAME": "pytorch_model.bin",
    "WEIGHTS_INDEX_NAME": "pytorch_model.bin.index.json",
    "PROCESSOR_NAME": "processor_config.json",
    "FEATURE_EXTRACTOR_NAME": "preprocessor_config.json",
}
_LAYERS: Final = (
    "full_attention",
    "sliding_attention",
    "chunked_attention",
    "linear_attention",
    "conv",
    "mamba",
    "attention",
    "sparse",
    "dense",
    "hybrid",
    "moe",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
    "minimax_m3_sparse",
    "deepseek_sparse_attention",
    "indexed_attention",
    "qwen_sparse_attention",
)
"""Kinds of layers that a release of ``transformers`` knows: no other key of a configuration reads so."""


class HFValidationError(ValueError):
    """Stand for the error about a name that cannot be one of a repository."""


class EntryNotFoundError(Exception):
    """Stand for the error about a file that a repository lacks."""


class RepositoryNotFoundError(Exception):
    """Stand for the error about a repository that does not exist."""


def install(machine: Machine) -> None:
    """Add the hub."""
    add = machine.library
    for module in ("huggingface_hub.errors", "huggingface_hub.utils", "huggingface_hub"):
        for kind in (HFValidationError, EntryNotFoundError, RepositoryNotFoundError):
            add[f"{module}.{kind.__name__}"] = kind
        add[f"{module}.LocalEntryNotFoundError"] = EntryNotFoundError
    for name in (
        "try_to_load_from_cache",
        "hf_hub_download",
        "snapshot_download",
        "list_repo_files",
        "file_exists",
        "get_safetensors_metadata",
        "model_info",
        "repo_exists",
    ):
        add[f"huggingface_hub.{name}"] = Native(name, _asking(machine, name), machine)
    add["huggingface_hub.constants.HF_HUB_OFFLINE"] = _offline(machine)
    add["huggingface_hub.constants.HUGGINGFACE_HUB_CACHE"] = Unknown(("the hub's cache folder",))
    for name, value in _NAMES.items():
        add[f"transformers.utils.{name}"] = value
    images = "transformers.models.auto.image_processing_auto.get_image_processor_config"
    add[images] = Native("get_image_processor_config", lambda path, *a, **k: _images(machine, path), machine)
    add["transformers.configuration_utils.ALLOWED_LAYER_TYPES"] = _LAYERS
    add["transformers.configuration_utils.ALLOWED_ATTENTION_LAYER_TYPES"] = _LAYERS
    # Whichever of the two names a release has, what it holds reads alike.
    add["transformers?has"] = {"ALLOWED_ATTENTION_LAYER_TYPES": True}.get


def _offline(machine: Machine) -> Any:
    found = [machine.environment.get(name) for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")]
    if any(isinstance(value, str) and value.upper() in _TRUE for value in found):
        return True
    unknown = [value for value in found if isinstance(value, Unknown)]
    return unknown_of(*unknown) if unknown else False


def _images(machine: Machine, path: Any) -> Any:
    """Return what a model's folder says of its images; nothing when there is no such file."""
    if not isinstance(path, (str, PurePath)) or not is_folder_name(path):
        return unknown_of(path, need="preprocessor_config.json")
    data = read(machine, f"{path}/preprocessor_config.json")
    if isinstance(data, Unknown):
        machine.doubts += 1
        return data
    try:
        return json.loads(data) if data is not None else {}
    except ValueError:
        return Unknown((f"file {path}/preprocessor_config.json",))


def is_folder_name(name: Any) -> bool:
    """Tell whether a text cannot be the name of a repository: a path."""
    text = str(name)
    return text.startswith(("/", ".", "~")) or text.count("/") > 1


def _asking(machine: Machine, name: str) -> Any:
    def run(repo_id: Any = None, *args: Any, **options: Any) -> Any:
        if isinstance(repo_id, (str, PurePath)) and is_folder_name(repo_id):
            raise GuestRaise(
                HFValidationError(
                    f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{repo_id}'"
                )
            )
        machine.doubts += 1
        return unknown_of(
            repo_id, need=f"huggingface_hub.{name}() of {repo_id}" if isinstance(repo_id, str) else "the hub"
        )

    return run
