"""Alerts about what users and operators were promised: answers, objectives, logs."""

from hookline_dashboards.rule import Alert, Group, Severity

SLO_TARGET = 0.99
"""Share of the requests that have to meet their objectives."""

_BUDGET = round(1 - SLO_TARGET, 6)

_ERRORS = (
    Alert(
        name="HooklineErrorRate",
        expression="model_name:hookline_request_errors:ratio_rate5m > 0.05",
        wait="2m",
        severity=Severity.CRITICAL,
        summary="{{ $value | humanizePercentage }} of the requests to "
        "{{ $labels.model_name }} end with an error.",
        next_step='"Requests finished" shows since when. The causes are in the '
        "server's log.",
    ),
    Alert(
        name="HooklineHttpErrors",
        expression="job:hookline_http_errors:ratio_rate5m > 0.05",
        wait="2m",
        severity=Severity.CRITICAL,
        summary="{{ $value | humanizePercentage }} of the HTTP requests to the job "
        "{{ $labels.job }} are answered with 5xx.",
        next_step='"HTTP requests" shows which routes. 503 is a full queue (see '
        '"Requests rejected"), an engine that loads, or one that is down.',
    ),
)


def _burn(
    speed: str, factor: float, windows: tuple[str, str], severity: Severity
) -> Alert:
    """Objectives are missed `factor` times as fast as the budget allows.

    The long window says that it matters, the short one that it has not ended.
    """
    missed = (
        f"1 - model_name:hookline_slo_attainment:ratio_rate{window}"
        f" > {factor} * {_BUDGET}"
        for window in windows
    )
    return Alert(
        name=f"HooklineSloBurn{speed}",
        expression="\nand\n".join(missed),
        wait="1m",
        severity=severity,
        summary="{{ $value | humanizePercentage }} of the requests to "
        "{{ $labels.model_name }} miss their objectives.",
        next_step='"Missed objectives and the phase to blame": queue means too little '
        "capacity, preempted too little KV cache, prefill long prompts, decode large "
        "batches.",
    )


_OBJECTIVES = (
    _burn("Fast", 14.4, ("5m", "1h"), Severity.CRITICAL),
    _burn("Slow", 6, ("30m", "6h"), Severity.WARNING),
)

_LOGGERS = (
    Alert(
        name="HooklineLaneDrops",
        expression="increase(hookline_logger_dropped_batches_total[5m]) > 0",
        wait="0s",
        severity=Severity.WARNING,
        summary="The logger {{ $labels.logger }} of {{ $labels.instance }} missed "
        "{{ $value | humanize }} batches.",
        next_step="Requests are not affected, but what this logger tells has gaps. "
        'See "Lane depth" and "Share of the time inside": near 100 % it is too slow; '
        "else its breaker is open.",
    ),
    Alert(
        name="HooklineBreakerOpen",
        expression="hookline_logger_breaker_open == 1",
        wait="1m",
        severity=Severity.WARNING,
        summary="The logger {{ $labels.logger }} of {{ $labels.instance }} failed too "
        "often and is not called.",
        next_step="The server's log has its traceback. It is tried again by itself; "
        'see "Errors of loggers".',
    ),
)

SERVICE_ALERTS: tuple[Group, ...] = (
    Group("hookline_errors", _ERRORS),
    Group("hookline_objectives", _OBJECTIVES),
    Group("hookline_loggers", _LOGGERS),
)
