"""vLLM's options that Hookline does not have, by what to do instead."""

from collections.abc import Mapping

ABSENT: Mapping[str, str] = {
    "only --engine vllm serves such LoRA adapters, by options after `--`": (
        "default-mm-loras enable-mixed-moe-lora-format enable-moe-shared-loras "
        "enable-tower-connector-lora"
    ),
    "adapters are computed in the model's dtype, by kernels for any number of them; "
    "leave it out": (
        "fully-sharded-loras lora-dtype max-lora-cls-labels specialize-active-lora"
    ),
    "only text is served, neither images nor audio nor video": (
        "allowed-local-media-path allowed-media-domains disable-chunked-mm-input "
        "ec-manager-config ec-transfer-config enable-mm-embeds interleave-mm-strings "
        "limit-mm-per-prompt media-io-kwargs mm-device-do-normalize "
        "mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path "
        "mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path "
        "mm-encoder-only mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb "
        "mm-processor-cache-gb mm-processor-cache-type mm-processor-device "
        "mm-processor-kwargs mm-shm-cache-max-object-size-mb mm-tensor-ipc "
        "skip-mm-profiling trust-request-mm-kwargs video-pruning-method "
        "video-pruning-rate"
    ),
    "models with Mamba or linear attention layers are not supported": (
        "enable-mamba-cache-stochastic-rounding enable-mamba-shared-prefix-checkpoint "
        "gdn-prefill-backend kda-decode-backend kda-prefill-backend mamba-backend "
        "mamba-block-size mamba-cache-dtype mamba-cache-mode mamba-cache-philox-rounds "
        "mamba-ssm-cache-dtype mamba-ssu-algorithm replayssm-buffer-len use-replayssm"
    ),
    "such models are not supported": "diffusion-config engram-config",
    "weights are not offloaded; --quantization w8a16 or w4a16 makes them smaller": (
        "cpu-offload-gb cpu-offload-params offload-backend offload-group-size "
        "offload-num-in-group offload-params offload-prefetch-step"
    ),
    "the context of a request is on one rank, or split by heads with "
    "--tensor-parallel-size": (
        "cp-kv-cache-interleave-size dcp-comm-backend dcp-kv-cache-interleave-size "
        "dcp-q-replicate decode-context-parallel-size prefill-context-parallel-size"
    ),
    "experts stay on their ranks": (
        "enable-ep-weight-filter enable-eplb eplb-config expert-placement-strategy"
    ),
    "a step is one batch; leave it out": (
        "dbo-decode-token-threshold dbo-prefill-token-threshold enable-dbo ubatch-size"
    ),
    "how ranks talk to each other cannot be chosen; leave it out": (
        "all2all-backend disable-nccl-for-dp-synchronization dp-sync-interval "
        "enable-batch-sharded-sampling enable-hc-sp enable-nccl-comm-suspend "
        "enable-shm-tensor-arena"
    ),
    "there are no such metrics": "cudagraph-metrics",
    "there is no such output": (
        "aux-output-config enable-return-routed-experts enable-trace-replay "
        "return-sampling-mask"
    ),
    "prompts are texts or token ids": "enable-prompt-embeds",
    "code of model folders never runs; leave it out": (
        "code-revision trust-remote-code"
    ),
    "such endpoints are not served": "enable-scale-out grpc grpc-port tokens-only",
    "outputs carry no watermark": "watermark-config",
    "there is no such mode of the sampler": "use-fp64-gumbel",
    "weights are not changed while serving": (
        "sleep-preserve-parameter-names weight-transfer-config"
    ),
    "the layers of a model share one cache dtype and one kind of block; leave it out": (
        "kv-cache-dtype-skip-layers kv-sharing-fast-prefill "
        "prefix-cache-retention-interval prefix-match-unit swa-bounded-replay"
    ),
    "prompts and outputs are never in the log; --stat-logger request_log with "
    "--request-log-prompts true writes their token ids": "enable-log-outputs",
    "tools run at the client": "tool-server",
}
"""What Hookline does not do: `--no-` before such a switch is so anyway."""

_KERNELS = "--kernels, --enforce-eager and HOOKLINE_CPU_ISA choose kernels"
_PARSER = "parsers are installed plugins, see docs/tool_parsers.md"
_MACHINES = (
    "use --data-parallel-address and --data-parallel-size-local, see docs/machines.md"
)
_EXTERNAL = (
    "start a server for each rank, with --data-parallel-rank and "
    "--data-parallel-external-lb"
)
_NO_OFFLOAD = 'use --kv-transfer-config \'{"kv_connector": "cpu_offload"}\''
_CONFIG = "the model's config.json says it"

OTHERWISE: Mapping[str, str] = {
    _KERNELS: (
        "attention-backend attention-config compilation-config cudagraph-capture-sizes "
        "disable-cascade-attn enable-flash-late-interaction "
        "enable-flashinfer-autotune ir-op-priority jit-monitor-mode "
        "jit-monitor-verbose kernel-config linear-backend max-cudagraph-capture-size "
        "max-seq-len-to-capture moe-backend optimization-level performance-mode "
        "sparse-indexer-topk-backend"
    ),
    "--kernels torch runs the modules of transformers": "model-impl",
    _PARSER: "reasoning-parser-plugin tool-parser-plugin",
    "a tool with strict: true has its arguments enforced": "tool-strict-level",
    _MACHINES: "master-addr master-port nnodes node-rank",
    _EXTERNAL: (
        "data-parallel-multi-port-external-lb data-parallel-supervisor-port "
        "dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s "
        "dp-supervisor-probe-timeout-s"
    ),
    "use --step-timeout": (
        "cpu-distributed-timeout-seconds distributed-timeout-seconds"
    ),
    "use --engine-restart and --step-timeout": (
        "enable-fault-tolerance fault-tolerance-config"
    ),
    "engines come and go by --autoscale or POST /scale, without "
    "--enable-expert-parallel": "elastic-ep-max-dp-size enable-elastic-ep",
    "start it with numactl; --threads sets the number of threads": (
        "numa-bind numa-bind-cpus numa-bind-nodes"
    ),
    "set CUDA_VISIBLE_DEVICES": "device-ids",
    "set HF_TOKEN, or log in with hf auth login": "hf-token",
    "give a folder with this config.json to --model": "hf-config-path",
    f"{_CONFIG}; leave it out": (
        "allow-deprecated-quantization config-format disable-hybrid-kv-cache-manager "
        "disable-sliding-window quantization-config"
    ),
    "weights are mapped, and read in parallel; leave it out": (
        "ignore-patterns max-parallel-loading-workers model-loader-extra-config "
        "pt-load-map-location safetensors-load-strategy "
        "safetensors-prefetch-block-size safetensors-prefetch-num-threads"
    ),
    "progress is shown in a terminal and told by the log; leave it out": (
        "use-tqdm-on-load"
    ),
    "--enable-sleep-mode needs nothing else": (
        "enable-cumem-allocator sleep-mode-offload-cudagraph"
    ),
    "a model's architecture is a plugin, see docs/write-a-plugin.md": (
        "model-class-overrides"
    ),
    "plugins replace such classes, see docs/extensions.md": (
        "additional-config io-processor-plugin scheduler-cls worker-cls "
        "worker-extension-cls"
    ),
    "use --api-server-count: each server renders its own texts": (
        "renderer-num-workers"
    ),
    "log-probabilities are of the model's own logits (raw_logprobs); leave it out": (
        "logprobs-mode"
    ),
    "use --max-num-batched-tokens": "max-num-scheduled-tokens",
    "use --max-num-seqs": "max-num-active-seqs",
    "prompts share a step as they fit; --long-prefill-token-threshold bounds each": (
        "max-long-partial-prefills max-num-partial-prefills"
    ),
    "use --long-prefill-token-threshold": "long-prefill-token-threshold-adaptive",
    "a prompt is admitted when its blocks are free, and preempted requests are "
    "recomputed; leave it out": (
        "preemption-mode prefill-schedule-interval scheduler-reserve-full-isl watermark"
    ),
    _NO_OFFLOAD: "kv-offloading-backend swap-space",
    "use --structured-outputs-config.backend": "guided-decoding-backend",
    "use --logits-processor thinking_budget": "reasoning-config",
    "the stat logger prometheus has hookline_estimated_flops_total": (
        "enable-mfu-metrics"
    ),
    "use --record or the flight recorder, and hookline trace": (
        "enable-layerwise-nvtx-tracing enable-logging-iteration-details "
        "profiler-config ray-workers-use-nsight"
    ),
    "each engine has lines of its own; use --logging-interval": (
        "aggregate-engine-logging"
    ),
    "use --stat-logger request_log; prompts are never in the server's log": (
        "enable-log-deltas max-log-len"
    ),
    "use --log-level": "uvicorn-log-level",
    "errors of requests are logged with their causes; leave it out": "log-error-stack",
    "headers have fixed limits, and --header-timeout": (
        "h11-max-header-count h11-max-incomplete-event-size"
    ),
    "the fingerprint is that of the engine's configuration; leave it out": (
        "fingerprint-mode fingerprint-value"
    ),
    "parsers know their own formats; leave it out": (
        "anthropic-disabled-thinking-effort cohere-format cohere-is-reasoning-model"
    ),
    "one server serves one model": "task",
    "use --speculative-config": "speculative-model",
    "the template gets content as it takes it; leave it out": (
        "chat-template-content-format"
    ),
    "a tokenizer is always loaded, though prompts may be token ids; --tokenizer names "
    "one that is elsewhere": "skip-tokenizer-init",
    "use --log-config-file, or --log-level and --log-format": "logging-config",
}
"""What Hookline has in another form, or does by itself."""

SETTLED: Mapping[str, str] = {
    "attention-backend": "auto",
    "chat-template-content-format": "auto",
    "config-format": "auto hf",
    "cpu-offload-gb": "0",
    "decode-context-parallel-size": "1",
    "disable-cascade-attn": "",
    "disable-custom-all-reduce": "",
    "disable-log-requests": "",
    "enable-offline-docs": "",
    "enable-prompt-tokens-details": "",
    "enable-request-id-headers": "",
    "enable-server-load-tracking": "",
    "exclude-tools-when-tool-choice-none": "",
    "expert-placement-strategy": "linear",
    "kv-offloading-backend": "native",
    "language-model-only": "",
    "logprobs-mode": "raw_logprobs",
    "model-impl": "auto",
    "nnodes": "1",
    "no-disable-hybrid-kv-cache-manager": "",
    "no-enable-log-requests": "",
    "node-rank": "0",
    "prefill-context-parallel-size": "1",
    "swap-space": "0",
    "watermark": "0 0.0",
}
"""Switches and values that ask for what is so anyway."""
