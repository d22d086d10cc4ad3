"""Settings of engines that are no Python, from the formats in which their help is printed."""

from __future__ import annotations

import hashlib

import pytest

from tools.settings.define_help import definitions

LLAMA = b"""----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      CPU threads for generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-ngl,  --gpu-layers, --n-gpu-layers N   layers kept in VRAM, a number, 'auto'
                                        or 'all' (default: auto)
                                        (env: LLAMA_ARG_N_GPU_LAYERS)
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        offload of the KV cache (default: enabled)
                                        (env: LLAMA_ARG_KV_OFFLOAD)
-sm,   --split-mode {none,layer,row}    how to split over GPUs, one of:
                                        - none: one GPU only
                                        - layer (default): split layers
--no-host                               bypass the host buffer
                                        (env: LLAMA_ARG_NO_HOST)
-ctk,  --cache-type-k TYPE              KV cache type for K
                                        allowed values: f32, f16, q8_0
                                        (default: f16)
-m,    --model FNAME                    model path (default: `models/$filename` with more
                                        words)
-fa,   --flash-attn [on|off|auto]       use of Flash Attention (default: 'auto')


----- sampling params -----

--temp, --temperature N                 temperature (default: 0.80)
"""

TGI = b"""Text Generation Launcher

Usage: text-generation-launcher [OPTIONS]

Options:
      --model-id <MODEL_ID>
          The name of the model to load

          [env: MODEL_ID=]
          [default: bigscience/bloom-560m]

      --quantize <QUANTIZE>
          How to quantize

          [env: QUANTIZE=]

          Possible values:
          - awq:  4 bit
          - fp8:  FP8 values

      --max-concurrent-requests <MAX_CONCURRENT_REQUESTS>
          [env: MAX_CONCURRENT_REQUESTS=] [default: 128]
  -p, --port <PORT>
          The port to listen on
          [env: PORT=80]
          [default: 3000]

      --dtype <DTYPE>
          [env: DTYPE=]
          [possible values: float16, bfloat16]

      --trust-remote-code
          [env: TRUST_REMOTE_CODE=]
"""

OLLAMA = b"""Start Ollama

Usage:
  ollama serve [flags]

Flags:
  -h, --help   help for serve

Environment Variables:
      OLLAMA_DEBUG               Show more debug output (e.g. OLLAMA_DEBUG=1)
      OLLAMA_HOST                Address to listen on (default 127.0.0.1:11434)
      OLLAMA_KV_CACHE_TYPE       Type of the K/V cache (default: f16)
      OLLAMA_LOAD_TIMEOUT        How long a load may stall (default "5m")
"""


def test_llama_server_options_with_pairs_choices_and_variables() -> None:
    found = definitions("llama.cpp", LLAMA, "b6000")
    layers = found["n_gpu_layers"]
    assert layers.flags == ("--gpu-layers", "--n-gpu-layers", "-ngl") and layers.default == "auto"
    assert (layers.shallow, layers.owner, layers.takes) == (True, "llama-server --help", "one")
    assert (layers.cite.line, layers.cite.last_line) == (6, 8)
    assert layers.cite.sha256 == hashlib.sha256(LLAMA).hexdigest() and layers.cite.version == "b6000"
    variable = found["LLAMA_ARG_N_GPU_LAYERS"]
    assert (variable.kind, variable.default, variable.flags) == ("environment", "auto", ())
    assert (found["threads"].default, found["temperature"].default) == (-1, 0.8)
    offload = found["kv_offload"]
    assert offload.flags == ("--kv-offload", "-kvo") and offload.negative_flags == (
        "-nkvo",
        "--no-kv-offload",
    )
    assert (offload.default, offload.type, offload.takes) == (True, "bool", "none")
    assert found["no_host"].flags == ("--no-host",) and found["no_host"].default is False
    assert found["split_mode"].choices == ("none", "layer", "row") and not found["split_mode"].default_known
    assert found["cache_type_k"].choices == ("f32", "f16", "q8_0")
    assert found["flash_attn"].choices == ("on", "off", "auto") and found["flash_attn"].default == "auto"
    assert not found["model"].default_known and "more words" in found["model"].default_text
    assert "help" not in found


def test_launcher_options_with_their_variables() -> None:
    found = definitions("tgi", TGI)
    assert found["model_id"].default == "bigscience/bloom-560m"
    assert (found["MODEL_ID"].kind, found["MODEL_ID"].default) == ("environment", "bigscience/bloom-560m")
    assert found["max_concurrent_requests"].default == 128
    assert (found["port"].flags, found["port"].default) == (("--port", "-p"), 3000)
    assert found["quantize"].choices == ("awq", "fp8") and not found["quantize"].default_known
    assert found["dtype"].choices == ("float16", "bfloat16")
    assert (found["trust_remote_code"].type, found["trust_remote_code"].default) == ("bool", False)
    assert len([each for each in found.values() if each.kind == "field"]) == 6


def test_ollama_variables_of_the_help_and_documented_ones() -> None:
    found = definitions("ollama", OLLAMA, "0.12.3")
    assert found["OLLAMA_HOST"].default == "127.0.0.1:11434" and found["OLLAMA_HOST"].cite.line == 11
    assert found["OLLAMA_KV_CACHE_TYPE"].default == "f16" and found["OLLAMA_LOAD_TIMEOUT"].default == "5m"
    assert not found["OLLAMA_DEBUG"].default_known
    documented = found["OLLAMA_CONTEXT_LENGTH"]
    assert (documented.default_known, documented.cite.path) == (False, "ollama's documentation")
    assert all(each.shallow for each in found.values())


@pytest.mark.parametrize(
    "text", [b"", b"error: no such option\n", b"\xff\xfe\x00--\n- a\n--\n", b"-" * 100_000]
)
def test_a_help_that_says_nothing_defines_nothing(text: bytes) -> None:
    assert not definitions("llama.cpp", text)
