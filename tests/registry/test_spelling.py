"""What a misspelt name was meant to be, and names that mean something else."""

from hookline_registry.spelling import closest

OPTIONS = (
    *("--max-tenants", "--max-num-seqs", "--max-model-len", "--max-num-queued-reqs"),
    *("--enable-auto-tool-choice", "--enable-prefix-caching", "--enable-sleep-mode"),
    *("--gpu-memory-utilization", "--api-key", "--token", "--tokenizer", "--dtype"),
    *("--data-parallel-size", "--tensor-parallel-size", "--kv-cache-dtype"),
    *("--kv-cache-metrics", "--structured-outputs-config", "--host", "--port"),
)

MEANT = {
    "--max-num-seq": "--max-num-seqs",
    "--max_num_seqs": "--max-num-seqs",
    "--max-model-length": "--max-model-len",
    "--maxmodellen": "--max-model-len",
    "--max-seqs": "--max-num-seqs",
    "--enable-prefix-cache": "--enable-prefix-caching",
    "--enable-sleep": "--enable-sleep-mode",
    "--gpu-mem-util": "--gpu-memory-utilization",
    "--gpu-memory-utilizaton": "--gpu-memory-utilization",
    "--api-kye": "--api-key",
    "--tokn": "--token",
    "--tokeniser": "--tokenizer",
    "--prot": "--port",
    # Another word means something else, and so does an unclear name.
    "--max-loras": None,
    "--max-cpu-loras": None,
    "--enable-elastic-ep": None,
    "--enable-tool-choice-none": None,
    "--preemption-mode": None,
    "--guided-decoding-backend": None,
    "--cpu-memory-utilization": None,
    "--kv-cache": None,
    "--parallel-size": None,
    "--post": None,
    "-x": None,
    "--": None,
    "": None,
}


def test_only_the_same_meaning_is_suggested() -> None:
    """A typing error, an inflection or an abbreviation, and never another word."""
    assert {name: closest(name, OPTIONS) for name in MEANT} == MEANT


def test_names_of_all_kinds() -> None:
    """Names of commands, hooks, keys and plugins are words, too."""
    assert closest("lst", ["list", "describe", "diff"]) == "list"
    assert closest("engine_starts", ["engine_started", "engine_failed"]) == (
        "engine_started"
    )
    assert closest("methods", ["method"]) == "method"
    assert closest("audti", ["audit", "logging"]) == "audit"
    assert closest("enable_lora", []) is None
