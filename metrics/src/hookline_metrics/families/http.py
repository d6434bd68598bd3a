"""Metrics of the HTTP server, labelled by route template, never by path."""

from collections.abc import Callable, Iterable

from hookline.payloads import CLIENT_LEFT, HttpExchange
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.front_end_parts import StreamStats
from hookline_metrics.metric import Kind, Label, Metric, Point, Scope
from hookline_metrics.readings import HttpLoad, Reading, one

ROUTE = Label("route", cap=64)
METHOD = Label("method", cap=8)
DISCONNECT = "client_disconnect"
STATUS = Label("status", ("2xx", "3xx", "4xx", "5xx", DISCONNECT))


def _load(load: HttpLoad) -> Iterable[Point]:
    return [(key, count, 1) for key, count in load.in_flight.items()]


def _answered(exchange: HttpExchange) -> Iterable[Point]:
    # Not 4xx: neither side has made an error, and rates of errors would show it.
    has_left = exchange.status == CLIENT_LEFT
    status = DISCONNECT if has_left else f"{exchange.status // 100}xx"
    return (((exchange.route, exchange.method, status), 1, 1),)


def _bytes(name: str, text: str, number: Callable[[HttpExchange], int]) -> Metric:
    return Metric(
        name=f"hookline_http_{name}_bytes",
        kind=Kind.HISTOGRAM,
        unit="bytes",
        help=text,
        labels=(ROUTE,),
        buckets=BucketFamily.HTTP_BYTES,
        scope=Scope.FRONT_END,
        value=Reading(
            HttpExchange, lambda exchange: (((exchange.route,), number(exchange), 1),)
        ),
    )


HTTP_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_http_requests",
        kind=Kind.COUNTER,
        unit="requests",
        help="HTTP requests answered, by route template, method and status class; "
        "client_disconnect counts those whose client disconnected before the end.",
        labels=(ROUTE, METHOD, STATUS),
        scope=Scope.FRONT_END,
        value=Reading(HttpExchange, _answered),
    ),
    Metric(
        name="hookline_http_requests_in_flight",
        kind=Kind.GAUGE,
        unit="requests",
        help="HTTP requests in flight.",
        labels=(ROUTE, METHOD),
        scope=Scope.FRONT_END,
        value=Reading(HttpLoad, _load),
    ),
    Metric(
        name="hookline_http_request_duration_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time from an HTTP request's head to the last byte of its response.",
        labels=(ROUTE, METHOD),
        buckets=BucketFamily.HTTP_LATENCY,
        scope=Scope.FRONT_END,
        value=Reading(
            HttpExchange,
            lambda exchange: (
                ((exchange.route, exchange.method), exchange.seconds, 1),
            ),
        ),
    ),
    Metric(
        name="hookline_stream_keep_alives",
        kind=Kind.COUNTER,
        unit="keep_alives",
        help="Comments and pings sent only to keep a stream alive that waited.",
        scope=Scope.FRONT_END,
        value=Reading(StreamStats, lambda streams: one(streams.keep_alives)),
    ),
    _bytes(
        "request_size", "Size of HTTP request bodies.", lambda each: each.request_bytes
    ),
    _bytes(
        "response_size",
        "Size of HTTP response bodies.",
        lambda each: each.response_bytes,
    ),
)
