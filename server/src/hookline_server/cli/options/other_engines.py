"""Replacements for options and commands of vLLM and SGLang."""

from collections.abc import Mapping

_NO_REMOTE_CODE = "code of model folders never runs; leave it out"
_TLS = "put a proxy in front that ends TLS"
_LOG = "use --log-level"
_ONE_MODEL = "one server serves one model"
_NO_SWAP = 'use --kv-transfer-config \'{"kv_connector": "cpu_offload"}\''
_PARSER = "parsers are installed plugins, see docs/tool_parsers.md"
_BACKEND = "--kernels and HOOKLINE_CPU_ISA choose kernels"
_NO_LORA = "only --engine vllm serves LoRA adapters, by options after `--`"
_ACCESS_LOG = "requests are logged at --log-level info, probes and scrapes never"

ADVICE: Mapping[str, str] = {
    "allow-credentials": "name the allowed origins with --allowed-origins",
    "attention-backend": _BACKEND,
    "chat-template": "the chat template is that of the model's folder",
    "chunked-prefill-size": "use --max-num-batched-tokens",
    "compilation-config": _BACKEND,
    "context-length": "use --max-model-len",
    "cpu-offload-gb": "weights are not offloaded",
    "disable-access-log-for-endpoints": _ACCESS_LOG,
    "disable-custom-all-reduce": "there is no such kernel; leave it out",
    "disable-log-requests": "prompts are never logged; leave it out",
    "disable-radix-cache": "use --no-enable-prefix-caching",
    "disable-uvicorn-access-log": _ACCESS_LOG,
    "dp-size": "use --data-parallel-size",
    "enable-elastic-ep": "engines come and go by --autoscale or POST /scale, without "
    "--enable-expert-parallel",
    "enable-eplb": "experts stay on their ranks",
    "enable-log-requests": "use --stat-logger request_log",
    "enable-lora": _NO_LORA,
    "enable-metrics": "metrics are on by default; leave it out",
    "exclude-tools-when-tool-choice-none": "tools are not shown then; leave it out",
    "fully-sharded-loras": _NO_LORA,
    "guided-decoding-backend": "use --structured-outputs-config.backend",
    "kv-offloading-size": _NO_SWAP,
    "load-balance-method": "use --load-balancing",
    "log-requests": "use --stat-logger request_log",
    "lora-modules": _NO_LORA,
    "max-log-len": "prompts are never logged; leave it out",
    "max-cpu-loras": _NO_LORA,
    "max-lora-rank": _NO_LORA,
    "max-loras": _NO_LORA,
    "max-running-requests": "use --max-num-seqs",
    "max-total-tokens": "use --num-kv-blocks",
    "mem-fraction-static": "use --gpu-memory-utilization",
    "middleware": "stat loggers bring pages, see docs/hooks.md",
    "model-path": "use --model",
    "num-gpu-blocks-override": "use --num-kv-blocks",
    "page-size": "use --block-size",
    "preemption-mode": "preempted requests are recomputed; leave it out",
    "random-seed": "use --seed",
    "reasoning-config": "use --logits-processor thinking_budget",
    "reasoning-parser-plugin": _PARSER,
    "root-path": "set the path in the proxy in front",
    "schedule-conservativeness": "use --scheduling-policy and --max-num-queued-reqs",
    "schedule-policy": "use --scheduling-policy",
    "speculative-algorithm": "use --speculative-config",
    "speculative-model": "use --speculative-config",
    "ssl-ca-certs": _TLS,
    "ssl-certfile": _TLS,
    "ssl-keyfile": _TLS,
    "swap-space": _NO_SWAP,
    "task": _ONE_MODEL,
    "tokenizer-mode": "the tokenizer is that of the model's folder",
    "tokenizer-path": "use --tokenizer",
    "tool-parser-plugin": _PARSER,
    "tp": "use --tensor-parallel-size",
    "tp-size": "use --tensor-parallel-size",
    "trust-remote-code": _NO_REMOTE_CODE,
    "uvicorn-log-level": _LOG,
    "watchdog-timeout": "use --step-timeout",
}
"""By flag, without leading dashes."""

_CLIENT = "start hookline serve, and use any client of OpenAI's API"

COMMANDS: Mapping[str, str] = {
    "chat": _CLIENT,
    "collect-env": "use hookline version and hookline plugins",
    "complete": f"use hookline generate; or {_CLIENT}",
    "launch": "use hookline serve",
}
"""By the command's name."""


def advice(flag: str) -> str | None:
    """Returns what to do instead of an option of another engine; None for others.

    Args:
        flag: The option's name with its leading dashes.
    """
    return ADVICE.get(flag.removeprefix("--").removeprefix("no-"))
