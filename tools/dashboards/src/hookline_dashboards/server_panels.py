"""Rows about what is around the engine: the HTTP server and the loggers."""

from hookline_dashboards.panel import Alarm, Row
from hookline_dashboards.standard_panels import StandardPanels


def http(make: StandardPanels) -> Row:
    return Row(
        title="HTTP",
        panels=(
            make.rates("HTTP requests", "hookline_http_requests"),
            make.totals("In flight", "hookline_http_requests_in_flight"),
            make.tails("Duration", "hookline_http_request_duration_seconds"),
            make.tails("Request size", "hookline_http_request_size_bytes"),
            make.tails("Response size", "hookline_http_response_size_bytes"),
        ),
    )


def plugins(make: StandardPanels) -> Row:
    return Row(
        title="Plugins",
        panels=(
            make.each("Lane depth", "hookline_logger_lane_depth"),
            make.rates("Delivered batches", "hookline_logger_delivered_batches"),
            make.rates(
                "Dropped batches",
                "hookline_logger_dropped_batches",
                alarm=Alarm.UNEQUAL_ZERO,
            ),
            make.rates("Errors of loggers", "hookline_logger_errors"),
            make.rates("Share of the time inside", "hookline_logger_busy_seconds"),
            make.each(
                "Breakers", "hookline_logger_breaker_open", alarm=Alarm.UNEQUAL_ZERO
            ),
            make.rates("Label values told as other", "hookline_label_values_folded"),
        ),
    )
