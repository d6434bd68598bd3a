"""Alerts about an engine: down, stalled, inconsistent or overloaded."""

from hookline_dashboards.rule import Alert, Group, Severity

_WHERE = "engine {{ $labels.engine }} of {{ $labels.instance }}"

_HEALTH = (
    Alert(
        name="HooklineTargetDown",
        expression='up{job="hookline"} == 0\nor\nabsent(hookline_engine_up)',
        wait="1m",
        severity=Severity.CRITICAL,
        summary="Prometheus cannot scrape {{ $labels.instance }}.",
        next_step="No instance means no server at all. Check that the process runs, "
        "that /health/live answers, and that prometheus.yml has the address "
        "and token of /metrics.",
    ),
    Alert(
        name="HooklineEngineDown",
        expression="hookline_engine_up == 0",
        wait="30s",
        severity=Severity.CRITICAL,
        summary=f"The {_WHERE} has stopped, failed or stalled.",
        next_step="The server answers with 503. Its log and /health/ready have the "
        "cause. Restart the server.",
    ),
    Alert(
        name="HooklineStalled",
        expression="hookline_requests_running "
        "+ sum without (reason) (hookline_requests_waiting) > 0\n"
        "and\nhookline_last_step_age_seconds > 30",
        wait="30s",
        severity=Severity.CRITICAL,
        summary=f"The {_WHERE} has {{{{ $value }}}} requests but runs no steps.",
        next_step='See "Time since last step and report": if the report is old as '
        "well, the process hangs, most likely in the model; dump its stacks "
        'before restarting it. Otherwise "Running and waiting requests" '
        "shows what the requests wait for.",
    ),
    Alert(
        name="HooklineSnapshotStale",
        expression="hookline_snapshot_age_seconds > 10\nand\nhookline_engine_up == 1",
        wait="30s",
        severity=Severity.WARNING,
        summary=f"The {_WHERE} has not reported for {{{{ $value }}}} s.",
        next_step='All of its gauges are stale. See "Step time by phase (p99)", and '
        "check whether the process gets CPU time.",
    ),
    Alert(
        name="HooklineConservation",
        expression="hookline_conservation_residue != 0",
        wait="0s",
        severity=Severity.CRITICAL,
        summary=f"The {_WHERE} violates conservation of {{{{ $labels.kind }}}}: "
        "residue {{ $value }}.",
        next_step="This is a bug in Hookline, or in a plugin's engine; requests or KV "
        "blocks may leak. Report it with the log and a scrape of /metrics; restart if "
        "the KV cache fills up.",
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
        next_step="The KV cache is too small for this many concurrent requests. See "
        '"KV blocks" and "Time preempted"; lower --max-num-seqs, '
        "enlarge the KV cache, or add an engine.",
    ),
    Alert(
        name="HooklineRecomputing",
        expression="engine:hookline_recomputed_tokens:ratio_rate5m > 0.1",
        wait="5m",
        severity=Severity.WARNING,
        summary=f"The {_WHERE} spends {{{{ $value | humanizePercentage }}}} of its "
        "tokens on recomputation after preemptions.",
        next_step="This is the cost of preemptions; it grows with the length of "
        'requests. See HooklineThrash for remedies, and "Recomputed tokens '
        '(share)" for the start.',
    ),
    Alert(
        name="HooklineSaturated",
        expression="engine:hookline_saturation_ratio:avg1m > 1",
        wait="5m",
        severity=Severity.WARNING,
        summary=f"The {_WHERE} is overloaded: saturation {{{{ $value | humanize }}}}.",
        next_step='"Saturation by component" shows the bottleneck. Add an engine or '
        "shed load; until then latency rises.",
    ),
    Alert(
        name="HooklineQueueAge",
        expression="hookline_oldest_waiting_age_seconds > 30",
        wait="2m",
        severity=Severity.WARNING,
        summary=f"A request has waited for {{{{ $value | humanizeDuration }}}} at the "
        f"{_WHERE}.",
        next_step='See "Saturation". If it is low, a request starves: "Running and '
        'waiting requests" shows what it waits for; check the priorities '
        "of other requests.",
    ),
    Alert(
        name="HooklineKvCacheFull",
        expression="engine:hookline_kv_cache_usage_ratio:avg5m > 0.95\n"
        "and ignoring (reason)\n"
        'avg_over_time(hookline_requests_waiting{reason="capacity"}[5m]) > 0',
        wait="5m",
        severity=Severity.WARNING,
        summary=f"Requests wait while the KV cache of the {_WHERE} is "
        "{{ $value | humanizePercentage }} full.",
        next_step='See "KV blocks" and "Preemptions". Enlarge the KV cache, '
        "reduce --max-model-len or prompts, or add an engine.",
    ),
)

_TRANSFERS = (
    Alert(
        name="HooklineKvConnectorFails",
        expression="hookline_kv_transfer_breaker_open == 1",
        wait="1m",
        severity=Severity.WARNING,
        summary=f"The KV connector of the {_WHERE} is disabled after repeated "
        "failures.",
        next_step="Prompts are computed instead, so responses are correct but later. "
        '"KV transfer failures" and the server\'s log have the cause. The '
        "engine retries the connector by itself.",
    ),
)

ENGINE_ALERTS: tuple[Group, ...] = (
    Group("hookline_health", _HEALTH),
    Group("hookline_load", _LOAD),
    Group("hookline_kv_transfer", _TRANSFERS),
)
