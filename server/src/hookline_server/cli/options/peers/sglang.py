"""SGLang's options that Hookline does not have, by what to do instead."""

from collections.abc import Mapping

ABSENT: Mapping[str, str] = {
    "attention is split by heads, with --tensor-parallel-size": "enable-dp-attention",
}
"""What Hookline does not do: `--no-` before such a switch is so anyway."""

_KERNELS = "--kernels, --enforce-eager and HOOKLINE_CPU_ISA choose kernels"
_MACHINES = (
    "use --data-parallel-address and --data-parallel-size-local, see docs/machines.md"
)
_SPECULATION = "use --speculative-config"

OTHERWISE: Mapping[str, str] = {
    _KERNELS: (
        "cuda-graph-max-bs decode-attention-backend enable-p2p-check "
        "enable-torch-compile prefill-attention-backend sampling-backend "
        "torch-compile-max-bs"
    ),
    _SPECULATION: (
        "speculative-algorithm speculative-draft-model-path speculative-eagle-topk "
        "speculative-num-draft-tokens speculative-num-steps"
    ),
    "use --max-num-batched-tokens": "chunked-prefill-size max-prefill-tokens",
    "use --max-num-seqs and --max-model-len": "max-total-tokens-per-request",
    "use --num-kv-blocks, which counts blocks of --block-size tokens": (
        "max-total-tokens"
    ),
    "use --gpu-memory-utilization, which counts activations, too": (
        "mem-fraction-static"
    ),
    "use --scheduling-policy fcfs, priority or fair": "schedule-policy",
    "use --scheduling-policy and --max-num-queued-reqs": "schedule-conservativeness",
    "use --load-balancing": "load-balance-method",
    "use --structured-outputs-config.backend": "grammar-backend",
    _MACHINES: "dist-init-addr",
    "use --enable-expert-parallel": "ep ep-size",
    "use --runner pooling": "is-embedding",
    "use --step-timeout": "watchdog-timeout",
    "set CUDA_VISIBLE_DEVICES": "base-gpu-id",
    "change config.json in the model's folder": "json-model-override-args",
    "use --override-generation-config": "preferred-sampling-params",
    'use --kv-transfer-config \'{"kv_connector": "cpu_offload"}\'': (
        "enable-hierarchical-cache hicache-ratio hicache-size"
    ),
    "use hookline route, and --kv-transfer-config on each instance": (
        "disaggregation-mode disaggregation-transfer-backend"
    ),
    "use --stat-logger request_log": "log-requests log-requests-level",
}
"""What Hookline has in another form, or does by itself."""

SETTLED: Mapping[str, str] = {
    "enable-cache-report": "",
    "enable-metrics": "",
    "enable-mixed-chunk": "",
    "ep-size": "1",
}
"""Switches and values that ask for what is so anyway."""
