"""Tell what transformers makes of configurations: run by `evals.model_classes_real` where torch is."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

SEEN = (
    "torch_dtype",
    "rope_scaling",
    "num_labels",
    "use_return_dict",
    "output_attentions",
    "_attn_implementation",
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "head_dim",
    "num_experts",
    "layer_types",
    "tie_word_embeddings",
    "vocab_size",
    "no_such_attribute",
)


def declare_operators() -> Any:
    """Declare the operators whose absence would keep torchvision from being imported."""
    import torch  # type: ignore[import-not-found]

    with contextlib.suppress(RuntimeError):
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


def told(value: Any, base: type) -> Any:
    """Return a value as plain data."""
    if isinstance(value, base):
        seen = {}
        for name in SEEN:
            try:
                seen[name] = told(getattr(value, name, "absent"), base)
            except Exception:  # noqa: BLE001 - a property that fails is not compared
                continue
        return {
            "class": type(value).__name__,
            "attributes": {name: told(v, base) for name, v in vars(value).items()},
            "seen": seen,
        }
    if isinstance(value, dict):
        return {"pairs": sorted(([told(k, base), told(v, base)] for k, v in value.items()), key=repr)}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(map(repr, value))}
    if isinstance(value, tuple):
        return {"tuple": [told(v, base) for v in value]}
    if isinstance(value, list):
        return [told(v, base) for v in value]
    if type(value).__name__ == "dtype":
        return {"dtype": str(value)}
    return (
        value if value is None or isinstance(value, (bool, int, float, str)) else {"other": repr(value)[:80]}
    )


def main() -> None:
    """Read configurations, tell what becomes of them."""
    sys.path.insert(0, sys.argv[1])
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    kept = declare_operators()
    from transformers import AutoConfig  # type: ignore[import-not-found]
    from transformers.configuration_utils import PretrainedConfig  # type: ignore[import-not-found]

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for config in json.load(sys.stdin):
            Path(folder, "config.json").write_text(json.dumps(config))
            try:
                text = json.dumps(told(AutoConfig.from_pretrained(folder), PretrainedConfig))
                found.append(json.loads(text.replace(json.dumps(folder), '"model"')))
            except Exception as error:  # noqa: BLE001 - whatever the class raises is told
                found.append(f"{type(error).__name__}: {error}"[:200])
    del kept
    sys.stdout.write("@@@" + json.dumps(found))


if __name__ == "__main__":
    main()
