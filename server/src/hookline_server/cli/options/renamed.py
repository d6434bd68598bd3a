"""Names that other engines give to options of Hookline, and words for their values."""

from collections.abc import Callable, Mapping

from hookline.config.readers import read_size

OF_VLLM = {
    "--custom-histogram-buckets": "--histogram-buckets",
    "--device-memory-utilization": "--gpu-memory-utilization",
    "--disable-log-stats": "--stat-logger=none",
    "--distributed-executor-backend": "--executor",
    "--enable-log-requests": "--stat-logger=request_log",
    "--kv-cache-memory-bytes": "--kv-cache-memory",
    "--logits-processors": "--logits-processor",
    "--no-kv-cache-metrics": "--kv-cache-metrics-sample=0",
    "--num-gpu-blocks-override": "--num-kv-blocks",
    "--spec-method": "--speculative-config.method",
    "--spec-model": "--speculative-config.model",
    "--spec-tokens": "--speculative-config.num_speculative_tokens",
    "-asc": "--api-server-count",
    "-dp": "--data-parallel-size",
    "-dpa": "--data-parallel-address",
    "-dpb": "--data-parallel-backend",
    "-dpe": "--data-parallel-external-lb",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpl": "--data-parallel-size-local",
    "-dpn": "--data-parallel-rank",
    "-dpp": "--data-parallel-rpc-port",
    "-dpr": "--data-parallel-start-rank",
    "-ep": "--enable-expert-parallel",
    "-pp": "--pipeline-parallel-size",
    "-q": "--quantization",
    "-sc": "--speculative-config",
    "-tp": "--tensor-parallel-size",
}

OF_SGLANG = {
    "--context-length": "--max-model-len",
    "--disable-cuda-graph": "--enforce-eager",
    "--disable-overlap-schedule": "--no-async-scheduling",
    "--disable-radix-cache": "--no-enable-prefix-caching",
    "--dp": "--data-parallel-size",
    "--dp-size": "--data-parallel-size",
    "--lora-paths": "--lora-modules",
    "--max-loras-per-batch": "--max-loras",
    "--max-queued-requests": "--max-num-queued-reqs",
    "--max-running-requests": "--max-num-seqs",
    "--model-path": "--model",
    "--page-size": "--block-size",
    "--pp": "--pipeline-parallel-size",
    "--pp-size": "--pipeline-parallel-size",
    "--random-seed": "--seed",
    "--tokenizer-path": "--tokenizer",
    "--tp": "--tensor-parallel-size",
    "--tp-size": "--tensor-parallel-size",
}

ALIASES: Mapping[str, str] = {**OF_VLLM, **OF_SGLANG}
"""Options by vLLM's and SGLang's names; some names stand for a value, too."""

SHORT: Mapping[str, str] = {
    "-ac": "--attention-config",
    "-cc": "--compilation-config",
    "-dc": "--diffusion-config",
    "-dcp": "--decode-context-parallel-size",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-n": "--nnodes",
    "-pcp": "--prefill-context-parallel-size",
    "-r": "--node-rank",
}
"""vLLM's short names of what is no option here, so that their advice is found."""

SEVERAL = frozenset(
    {
        *("--collect-detailed-traces", "--logits-processor", "--served-model-name"),
        *("--lora-modules", "--lora-target-modules"),
    }
)
"""Options that take several words: `--served-model-name first second`."""

_WORDS: Mapping[str, Mapping[str, str | None]] = {
    "--dtype": {"half": "float16", "float": "float32"},
    "--executor": {"uni": "uniproc"},
    "--max-model-len": {"auto": None, "-1": None},
    "--load-format": {"auto": "safetensors"},
    "--log-level": {
        **{word.upper(): word for word in ("debug", "info", "warning", "error")},
        "CRITICAL": "error",
        "NOTSET": "debug",
    },
}


def _offloaded(text: str) -> tuple[str, ...]:
    """Returns options for vLLM's `--kv-offloading-size`, which is in GiB."""
    try:
        size = read_size(f"{text}GiB")
    except ValueError:
        return ()
    extra = "--kv-transfer-config.kv_connector_extra_config.cpu_bytes_to_use"
    return "--kv-transfer-config.kv_connector=cpu_offload", f"{extra}={size}"


EXPANDED: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    "--kv-offloading-size": _offloaded,
}
"""Options with a value that become several of ours; an empty result is none."""


def own_name(flag: str, value: object) -> tuple[str, object]:
    """Returns a flag without dashes and its value, by Hookline's name.

    A name that stands for a value has it where the given value is true.
    """
    target, equals, fixed = ALIASES.get(f"--{flag}", f"--{flag}").partition("=")
    return target.removeprefix("--"), fixed if equals else value


def own_word(flag: str, text: str) -> str | None:
    """Returns a value of an option, by Hookline's word for it; None is the default."""
    return _WORDS.get(flag, {}).get(text, text)
