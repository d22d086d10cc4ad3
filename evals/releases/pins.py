"""Name the releases that every test run counts: one of each layout that SGLang has had, and two of vLLM."""

from __future__ import annotations

from typing import Final

from evals.lab.package import PINS, Pin

SAMPLE: Final[dict[tuple[str, str], Pin]] = {
    ("sglang", "0.4.0"): Pin(
        "f0ae1c466f2480baec034decf8676c46e30beb900e018184fa6076da920391db",
        record="718e6ba66618d917f239edef89618cab2ef40f49aeff675df413e9cb30013d22",
        abi="none",
        platform="any",
    ),
    ("sglang", "0.4.6.post5"): Pin(
        "2a48053bd975e09ff10eabf1ef8bab4c913f3c3e16a3e45c13be1b4543cfeaed",
        record="272659d7393e086d2102db593d1c468683d558d3509cf09a092c898cc145a174",
        abi="none",
        platform="any",
    ),
    ("sglang", "0.5.2"): Pin(
        "83aae146f3913ed0802bb1ea356facff47efe0e7d18041a3f143de9ef6e44b2c",
        record="a58760b93a9c8589994669e497df0fab0ca4f2c27decde8acdf258f44aaa6c4f",
        abi="none",
        platform="any",
    ),
    ("sglang", "0.5.8"): Pin(
        "b7fbd890f6edd87f46c6e3ce72d592316af316f183c9bd999c3cc44b20fa2451",
        record="9d4a54ffd70ff3136354549295c525f72e70c3038876ce8b469372e34bd7f20f",
        abi="none",
        platform="any",
    ),
    ("sglang", "0.5.11"): PINS["sglang", "0.5.11"],
    ("sglang", "0.5.14"): Pin(
        "4fe16056b45c8aca00f5f90ceb174dc3a62a3f5dccf159c791370795cd00fc99",
        record="64eed6009fe1bc5f216c1940c922daa23396898375c552964871056a18be9221",
    ),
    ("sglang", "0.5.18"): Pin(
        "e97b585dd2d5db2802599feba47c84cce972f5e1231a6816fef996200207b5cf",
        record="9000c080ff71ba49ef54f108d498700d926ad028708656c059ced479b7d174d7",
    ),
    ("sglang", "0.5.23"): PINS["sglang", "0.5.23"],
    ("vllm", "0.11.0"): PINS["vllm", "0.11.0"],
    ("vllm", "0.33.0"): PINS["vllm", "0.33.0"],
}
