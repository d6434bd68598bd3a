"""Alerts about the service: errors, objectives and loggers."""

from hookline_dashboards.rule import Alert, Group, Severity

SLO_TARGET = 0.99
"""Fraction of requests that have to meet their objectives."""

_BUDGET = round(1 - SLO_TARGET, 6)

_ERRORS = (
    Alert(
        name="HooklineErrorRate",
        expression="model_name:hookline_request_errors:ratio_rate5m > 0.05",
        wait="2m",
        severity=Severity.CRITICAL,
        summary="{{ $value | humanizePercentage }} of the requests to "
        "{{ $labels.model_name }} end with an error.",
        next_step='"Requests finished" shows the start. The server\'s log has the '
        "causes.",
    ),
    Alert(
        name="HooklineHttpErrors",
        expression="job:hookline_http_errors:ratio_rate5m > 0.05",
        wait="2m",
        severity=Severity.CRITICAL,
        summary="{{ $value | humanizePercentage }} of the HTTP requests to the job "
        "{{ $labels.job }} are answered with 5xx.",
        next_step='"HTTP requests" shows the routes. 503 means an engine that is '
        "loading or down, 504 a request that was not finished by its deadline.",
    ),
)


def _burn(
    speed: str, factor: float, windows: tuple[str, str], severity: Severity
) -> Alert:
    """Returns an alert for a burn rate of `factor` times the error budget.

    The long window makes it significant, the short one ends it soon after recovery.
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
        next_step='"Missed objectives by phase" shows the cause: queue is missing '
        "capacity, preempted too small a KV cache, prefill long prompts, "
        "decode large batches.",
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
        next_step="Requests are not affected, but this logger's output has gaps. See "
        '"Queued batches" and "Time spent in loggers": near 100 % it is '
        "too slow; otherwise its breaker is open.",
    ),
    Alert(
        name="HooklineBreakerOpen",
        expression="hookline_logger_breaker_open == 1",
        wait="1m",
        severity=Severity.WARNING,
        summary="The logger {{ $labels.logger }} of {{ $labels.instance }} is "
        "disabled after repeated failures.",
        next_step="The server's log has the traceback. The engine retries the logger "
        'by itself; see "Logger errors".',
    ),
)

SERVICE_ALERTS: tuple[Group, ...] = (
    Group("hookline_errors", _ERRORS),
    Group("hookline_objectives", _OBJECTIVES),
    Group("hookline_loggers", _LOGGERS),
)
