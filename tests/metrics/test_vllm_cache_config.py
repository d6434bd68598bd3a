"""The fields of vLLM's cache configuration as labels."""

import dataclasses

from hookline.cache_facts import CacheFacts
from hookline.payloads import EngineFacts
from hookline_metrics import Recorder
from hookline_testing.payloads import FACTS, make_started

ABSENT = dict.fromkeys(
    (
        *("kv_cache_layout", "attn_group_size", "prefix_cache_retention_interval"),
        *("skip_page_size_padded", "mamba_block_size", "mamba_cache_dtype"),
        *("mamba_ssm_cache_dtype", "mamba_cache_mode", "mamba_page_size_padded"),
        "replayssm_buffer_len",
    ),
    "None",
)
OFF = dict.fromkeys(
    (
        *("is_attention_free", "kv_sharing_fast_prefill", "calculate_kv_scales"),
        *("user_specified_mamba_block_size", "use_replayssm", "use_kda_recoverssm"),
        "enable_mamba_fine_grained_prefix_cache",
    ),
    "False",
)
NOTHING = {
    **ABSENT,
    **OFF,
    "kv_cache_dtype_skip_layers": "[]",
    "cpu_offload_gb": "0",
    "swap_space": "0",
}


def told(recorder: Recorder) -> list[dict[str, str]]:
    """The labels of each series; all values are 1."""
    [family] = [
        each for each in recorder.snapshot() if each.name == "vllm:cache_config_info"
    ]
    assert {sample.value for sample in family.samples} == {1}
    return [
        dict(zip(family.label_names, sample.labels, strict=True))
        for sample in family.samples
    ]


def labels_of(facts: EngineFacts) -> dict[str, str]:
    recorder = Recorder()
    recorder.engine_started(make_started(facts))
    [labels] = told(recorder)
    return labels


def test_defaults_are_printed_as_vllm_does() -> None:
    """What is not set is None; numbers are those of the engine."""
    assert labels_of(FACTS) == {
        **NOTHING,
        "model_name": "tiny",
        "engine": "0",
        "block_size": "16",
        "user_specified_block_size": "False",
        "effective_attention_block_size": "16",
        "prefix_match_unit": "16",
        "num_gpu_blocks": "40",
        "num_gpu_blocks_override": "None",
        "num_cpu_blocks": "None",
        "kv_cache_size_tokens": "640",
        "kv_cache_max_concurrency": str(40 / 7),
        "kv_cache_memory_bytes": "None",
        "gpu_memory_utilization": "0.9",
        "cache_dtype": "float32",
        "sliding_window": "None",
        "enable_prefix_caching": "True",
        "prefix_caching_hash_algo": "sha256",
        "kv_offloading_size": "None",
        "kv_offloading_backend": "None",
    }


def test_settings_have_their_labels() -> None:
    """Each of an engine with other settings than the defaults."""
    cache = CacheFacts(
        hash_algorithm="blake2b",
        gpu_memory_utilization=0.5,
        configured_blocks=40,
        configured_bytes=2**20,
        connector="cpu_offload",
        host_blocks=128,
        host_bytes=3 * 2**29,
    )
    facts = dataclasses.replace(
        FACTS,
        model=dataclasses.replace(FACTS.model, sliding_window=4096),
        block_size=32,
        enable_prefix_caching=False,
        cache=cache,
    )

    found = labels_of(facts)

    assert {**labels_of(FACTS), **found} == found
    assert {
        name: value for name, value in found.items() if labels_of(FACTS)[name] != value
    } == {
        "block_size": "32",
        "user_specified_block_size": "True",
        "effective_attention_block_size": "32",
        "prefix_match_unit": "None",
        "num_gpu_blocks_override": "40",
        "num_cpu_blocks": "128",
        "kv_cache_size_tokens": "1280",
        "kv_cache_max_concurrency": "10.0",
        "kv_cache_memory_bytes": "1048576",
        "gpu_memory_utilization": "0.5",
        "sliding_window": "4096",
        "enable_prefix_caching": "False",
        "prefix_caching_hash_algo": "blake2b",
        "kv_offloading_size": "1.5",
        "kv_offloading_backend": "cpu_offload",
    }


def test_connector_without_a_host_tier_offloads_nothing() -> None:
    """A connector that shares blocks with others is no backend of offloading."""
    facts = dataclasses.replace(FACTS, cache=CacheFacts(connector="p2p"))

    assert labels_of(facts) == labels_of(FACTS)


def test_restart_replaces_the_labels_and_needs_no_bound() -> None:
    """The engine has one series at a time, with whatever values, and none is folded."""
    recorder = Recorder()
    for blocks in range(100, 150):
        facts = dataclasses.replace(
            FACTS, model=dataclasses.replace(FACTS.model, num_kv_blocks=blocks)
        )
        recorder.engine_started(make_started(facts))

    [labels] = told(recorder)
    [folded] = [
        each for each in recorder.snapshot() if each.name.endswith("values_folded")
    ]

    assert labels["num_gpu_blocks"] == "149"
    assert ("num_gpu_blocks",) not in {sample.labels for sample in folded.samples}
