"""Rows about the HTTP server and the loggers."""

from hookline_dashboards.panel import Alarm, Panel, Row
from hookline_dashboards.standard_panels import StandardPanels


def http(make: StandardPanels) -> Row:
    return Row(
        title="HTTP",
        panels=(
            make.rates("HTTP requests", "hookline_http_requests"),
            make.totals("HTTP requests in flight", "hookline_http_requests_in_flight"),
            make.tails(
                "HTTP request duration", "hookline_http_request_duration_seconds"
            ),
            make.tails("HTTP request size", "hookline_http_request_size_bytes"),
            make.tails("HTTP response size", "hookline_http_response_size_bytes"),
            make.each("Open connections", "hookline_http_connections"),
            make.each("Maximum of connections", "hookline_http_connections_maximum"),
            make.rates("Closed connections", "hookline_http_connections_closed"),
            make.rates("Failures to accept", "hookline_http_accept_errors"),
            make.totals("Texts waiting to be tokenized", "hookline_text_jobs_waiting"),
            make.rates("Texts tokenized", "hookline_text_jobs"),
            make.rates("Time spent tokenizing", "hookline_text_seconds"),
            make.rates("Text processes replaced", "hookline_text_process_restarts"),
            make.rates("Failures of reply parsers", "hookline_reply_parser_failures"),
            make.rates("Repairs of replies", "hookline_reply_repairs"),
            make.rates("Signs of life of streams", "hookline_stream_keep_alives"),
            make.rates("Unknown fields", "hookline_request_unknown_fields"),
            make.rates(
                "Ignored parts of requests", "hookline_request_ignored_elements"
            ),
            make.each("Stored responses", "hookline_stored_responses"),
            make.each("Memory of stored responses", "hookline_stored_response_bytes"),
            make.rates(
                "Evicted stored responses", "hookline_stored_response_evictions"
            ),
            make.each("Stale API keys", "hookline_api_keys_stale_seconds"),
            make.each("Event loop lag", "hookline_event_loop_lag_seconds"),
            make.rates("Event loop stalls", "hookline_event_loop_stalls"),
            make.each("Memory left", "hookline_memory_headroom_bytes"),
            make.each("Memory in use", "hookline_memory_used_bytes"),
            make.rates("Kills for lack of memory", "hookline_out_of_memory_kills"),
            make.each("Memory by role", "hookline_process_resident_memory_bytes"),
            make.rates("Processor time by role", "hookline_process_cpu_seconds"),
            make.each("Descriptors by role", "hookline_process_open_fds"),
            make.each(
                "Processes and threads by role",
                "hookline_processes",
                "hookline_process_threads",
            ),
            *_engines(make),
        ),
    )


def _engines(make: StandardPanels) -> tuple[Panel, ...]:
    """What the server says of the engines it sends requests to."""
    return (
        make.rates(
            "Dropped messages to and from engines",
            "hookline_transport_messages_dropped",
        ),
        make.rates("Requests sent to engines", "hookline_requests_placed"),
        make.totals("Engines by state", "hookline_engines"),
        make.each(
            "Engines wanted", "hookline_engines_wanted", "hookline_engines_limit"
        ),
        make.rates("Choices of a number of engines", "hookline_scaling_decisions"),
        make.rates(
            "Engines added, removed and not started",
            "hookline_engines_added",
            "hookline_engines_removed",
            "hookline_engine_starts_failed",
        ),
        make.rates(
            "Time spent starting engines beside others",
            "hookline_engine_start_seconds",
        ),
        make.rates(
            "Requests of dead engines that moved",
            "hookline_requests_moved",
            "hookline_requests_taken_over",
        ),
        make.each("Engines of other machines", "hookline_engine_machine_info"),
        make.each(
            "Round trip to other machines",
            "hookline_engine_link_round_trip_seconds",
        ),
        make.rates("Lost connections to other machines", "hookline_engine_link_losses"),
        make.rates("Engines that joined", "hookline_engine_link_joins"),
        make.rates(
            "Refused connections of other machines",
            "hookline_transport_connections_refused",
        ),
    )


def plugins(make: StandardPanels) -> Row:
    return Row(
        title="Loggers",
        panels=(
            make.each("Queued batches", "hookline_logger_lane_depth"),
            make.each("Missing on this page", "hookline_page_behind_seconds"),
            make.rates("Delivered batches", "hookline_logger_delivered_batches"),
            make.rates(
                "Dropped batches",
                "hookline_logger_dropped_batches",
                alarm=Alarm.UNEQUAL_ZERO,
            ),
            make.rates("Dropped log lines", "hookline_log_lines_dropped"),
            make.rates("Logger errors", "hookline_logger_errors"),
            make.rates("Time spent in loggers", "hookline_logger_busy_seconds"),
            make.each(
                "Open logger breakers",
                "hookline_logger_breaker_open",
                alarm=Alarm.UNEQUAL_ZERO,
            ),
            make.each("Loggers left out", "hookline_logger_left_out"),
            make.each("Hung pages", "hookline_logger_pages_hung"),
            make.rates("Failed pages", "hookline_logger_page_failures"),
            make.rates("Replaced label values", "hookline_label_values_folded"),
            make.each("Observed front ends", "hookline_observer_front_ends"),
            make.each(
                "Wait for the observer process", "hookline_observer_wait_seconds"
            ),
            make.rates(
                "Dropped notices",
                "hookline_observer_dropped_notices",
                alarm=Alarm.UNEQUAL_ZERO,
            ),
            make.rates("Observer processes replaced", "hookline_observer_restarts"),
        ),
    )
