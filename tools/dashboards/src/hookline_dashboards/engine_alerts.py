"""Alerts about an engine: dead, stuck, wrong, or with more work than it can do."""

from hookline_dashboards.rule import Alert, Group, Severity

_WHERE = "engine {{ $labels.engine }} of {{ $labels.instance }}"

_HEALTH = (
    Alert(
        name="HooklineTargetDown",
        expression='up{job="hookline"} == 0\nor\nabsent(hookline_engine_up)',
        wait="1m",
        severity=Severity.CRITICAL,
        summary="Prometheus gets no metrics from {{ $labels.instance }}.",
        next_step="Without an instance: from no server at all. See whether the process "
        "lives, answers /health/live, and serves /metrics where prometheus.yml looks "
        "for it, with the token that it asks for.",
    ),
    Alert(
        name="HooklineEngineDown",
        expression="hookline_engine_up == 0",
        wait="30s",
        severity=Severity.CRITICAL,
        summary=f"The {_WHERE} has stopped or failed.",
        next_step="The server still answers, with 503. The cause is in its log; "
        "/health/ready tells it, too. Start the server again.",
    ),
    Alert(
        name="HooklineStalled",
        expression="hookline_requests_running "
        "+ sum without (reason) (hookline_requests_waiting) > 0\n"
        "and\nhookline_last_step_age_seconds > 30",
        wait="30s",
        severity=Severity.CRITICAL,
        summary=f"The {_WHERE} has {{{{ $value }}}} requests and makes no steps.",
        next_step='See "Signs of life": if the snapshot is old as well, the process '
        "hangs, most likely in the model; take its stacks before you restart it. If "
        'not, look at "Running and waiting" for what the requests wait for.',
    ),
    Alert(
        name="HooklineSnapshotStale",
        expression="hookline_snapshot_age_seconds > 10\nand\nhookline_engine_up == 1",
        wait="30s",
        severity=Severity.WARNING,
        summary=f"Nothing was heard of the {_WHERE} for {{{{ $value }}}} s.",
        next_step="Its gauges are as old as that: trust none of them. Look at "
        '"Slowest steps by phase", and whether the process gets the processor at all.',
    ),
    Alert(
        name="HooklineConservation",
        expression="hookline_conservation_residue != 0",
        wait="0s",
        severity=Severity.CRITICAL,
        summary=f"The {_WHERE} lost count of {{{{ $labels.kind }}}}: "
        "{{ $value }} are left over.",
        next_step="A bug of Hookline: requests or blocks may leak. Report it with the "
        "log and a scrape of /metrics; restart if the KV cache fills up.",
    ),
)

_LOAD = (
    Alert(
        name="HooklineThrash",
        expression="engine:hookline_preemptions_per_finished:ratio_rate5m > 0.5",
        wait="5m",
        severity=Severity.WARNING,
        summary=f"The {_WHERE} preempts {{{{ $value | humanize }}}} times for each "
        "request that it finishes.",
        next_step="The KV cache is too small for so many requests at once. See "
        '"KV blocks" and "Stalled by preemption"; lower --max-num-seqs, give the KV '
        "cache more memory, or add an engine.",
    ),
    Alert(
        name="HooklineRecomputing",
        expression="engine:hookline_recomputed_tokens:ratio_rate5m > 0.1",
        wait="5m",
        severity=Severity.WARNING,
        summary=f"The {_WHERE} spends {{{{ $value | humanizePercentage }}}} of its "
        "tokens on computing again what preemption took.",
        next_step="As for HooklineThrash, of which this is the price: the longer the "
        'requests, the higher. "Recomputed share" shows since when.',
    ),
    Alert(
        name="HooklineSaturated",
        expression="engine:hookline_saturation_ratio:avg1m > 1",
        wait="5m",
        severity=Severity.WARNING,
        summary=f"The {_WHERE} gets more work than it can do: saturation "
        "{{ $value | humanize }}.",
        next_step='"Parts of saturation" tells which resource is short. Add an engine '
        "or shed load; latency rises until then.",
    ),
    Alert(
        name="HooklineQueueAge",
        expression="hookline_oldest_waiting_age_seconds > 30",
        wait="2m",
        severity=Severity.WARNING,
        summary=f"A request waits for {{{{ $value | humanizeDuration }}}} at the "
        f"{_WHERE}.",
        next_step='See "Saturation". If it is low, one request starves: see "Running '
        'and waiting" for what it waits for, and whether priorities hold it back.',
    ),
    Alert(
        name="HooklineKvCacheFull",
        expression="engine:hookline_kv_cache_usage_ratio:avg5m > 0.95\n"
        "and ignoring (reason)\n"
        'avg_over_time(hookline_requests_waiting{reason="capacity"}[5m]) > 0',
        wait="5m",
        severity=Severity.WARNING,
        summary=f"Requests wait while the KV cache of the {_WHERE} is full to "
        "{{ $value | humanizePercentage }}.",
        next_step='See "KV blocks" and "Preemptions". Give the KV cache more memory, '
        "shorten --max-model-len or prompts, or add an engine.",
    ),
)

_TRANSFERS = (
    Alert(
        name="HooklineKvConnectorFails",
        expression="hookline_kv_transfer_breaker_open == 1",
        wait="1m",
        severity=Severity.WARNING,
        summary=f"The KV connector of the {_WHERE} failed too often in a row, and "
        "loads nothing.",
        next_step="Prompts are computed, so answers are right and come later. "
        '"Failures" of KV transfer and the server\'s log tell why; it is tried again '
        "by itself.",
    ),
)

ENGINE_ALERTS: tuple[Group, ...] = (
    Group("hookline_health", _HEALTH),
    Group("hookline_load", _LOAD),
    Group("hookline_kv_transfer", _TRANSFERS),
)
