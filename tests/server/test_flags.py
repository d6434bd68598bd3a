"""The flags of all commands: none gets lost."""

import re

import pytest

from hookline_server.cli import main

ENGINE = """
    model served-model-name tokenizer dtype quantization load-format
    max-model-len seed runner convert pooler-config extension-config
    generation-config override-generation-config engine-option engine-argument
    hf-overrides tokenizer-mode chat-template tokenizer-revision
    block-size num-kv-blocks kv-cache-memory kv-cache-dtype kv-cache-prefault
    gpu-memory-utilization enable-prefix-caching prefix-caching-hash-algo
    kv-cache-metrics kv-cache-metrics-sample max-num-seqs max-num-queued-reqs
    max-num-queued-tokens
    max-num-batched-tokens enable-chunked-prefill long-prefill-token-threshold
    scheduling-policy priority-aging async-scheduling speculative-config
    kv-transfer-config
    kv-events-config engine in-process executor device enforce-eager threads kernels
    serve-while-compiling
    simulated-step-seconds simulated-prefill-token-seconds
    simulated-decode-request-seconds simulated-context-token-seconds
    simulated-draft-token-seconds simulated-adapter-rank-seconds
    simulated-adapter-token-seconds tensor-parallel-size enable-expert-parallel
    pipeline-parallel-size
    data-parallel-size data-parallel-size-local data-parallel-start-rank
    data-parallel-address data-parallel-rpc-port data-parallel-secret-file
    data-parallel-join-timeout data-parallel-backend ray-address load-balancing
    autoscale autoscale-target autoscale-quiet
    data-parallel-rank data-parallel-external-lb data-parallel-hybrid-lb
    logits-processor structured-outputs-config
    stat-logger stat-logger-option heartbeat-seconds page-wait-seconds
    slo keep-prompts on-non-finite otlp-traces-endpoint otlp-metrics-endpoint
    otlp-traces-sample collect-detailed-traces metrics-dialect histogram-buckets
    include-metrics exclude-metrics metrics-label show-hidden-metrics-for-version config
    record record-max-bytes flight-recorder-bytes flight-recorder-content
    flight-recorder-keep stall-seconds sleep-policy step-timeout on-engine-stall
    engine-restart observer-process revision download-dir offline
    fail-on-environ-validation
    enable-lora lora-modules max-loras max-lora-rank max-cpu-loras lora-memory
    lora-target-modules lora-dir lora-max-wait max-adapter-labels
"""

COMMANDS = {
    "serve": ENGINE
    + """
        host port api-server-count api-key api-keys shutdown-timeout max-body-bytes
        max-connections
        timeout-keep-alive header-timeout body-timeout write-timeout request-timeout
        enable-reset-prefix-cache log-level metrics-host metrics-port
        metrics-token tenant-header tenant-keys tenant max-tenants enable-sleep-mode
        enable-scaling
        disable-fastapi-docs allowed-origins allowed-methods allowed-headers
        deep-health-timeout tool-call-parser enable-auto-tool-choice reasoning-parser
        default-chat-template-kwargs
        """,
    "generate": ENGINE
    + """
        prompt prompt-file json max-tokens n temperature top-p top-k stop
        ignore-eos
        """,
    "warm-up": ENGINE,
    "train-draft": ENGINE
    + """
        method out data continue-data num-speculative-tokens tokens row-tokens
        prompt-tokens training-config
        """,
    "bench latency": ENGINE
    + """
        input-len output-len batch-size num-iters-warmup num-iters output-json
        disable-tqdm
        """,
    "bench throughput": ENGINE
    + """
        num-prompts random-input-len random-output-len random-range-ratio
        random-prefix-len num-warmups output-json disable-tqdm
        """,
    "bench serve": """
        base-url host port backend endpoint model header extra-body
        ready-check-timeout-sec num-prompts dataset-name dataset-path
        sharegpt-output-len custom-output-len mooncake-slowdown-factor
        random-input-len random-output-len
        random-range-ratio random-prefix-len tokenizer prompt-token-ids
        temperature ignore-eos continuous-usage seed request-rate burstiness
        ramp-up-strategy ramp-up-start-rps ramp-up-end-rps max-concurrency
        num-warmups percentile-metrics metric-percentiles goodput disable-tqdm
        output-json save-result save-detailed result-dir result-filename label
        metadata
        """,
    "bench startup": """
        num-iters-cold num-iters-warmup num-iters-warm ready-check-timeout-sec
        output-json disable-tqdm
        """,
    "bench compare": """
        confidence-level min-change metric-percentiles num-resamples seed
        output-json
        """,
    "route": """
        host port max-body-bytes shutdown-timeout log-level prefill decode
        connect-timeout prefill-timeout request-timeout retries poll-seconds
        prefill-min-characters demo connector instance-key
        """,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_flag_gets_lost(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The help of each command shows every flag that it ever had.
    """
    loggers = ["--stat-logger=none"] if command == "serve" else []
    with pytest.raises(SystemExit):
        main([*command.split(), *loggers, "--help=all"])

    shown = re.findall(r"^  --([a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert set(COMMANDS[command].split()) <= set(shown)


def test_every_flag_is_on_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    """
    A new engine option is entered above, so that it cannot get lost either.
    """
    with pytest.raises(SystemExit):
        main(["generate", "--help=all"])

    shown = re.findall(r"^  --([a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert sorted(shown) == sorted(COMMANDS["generate"].split())
