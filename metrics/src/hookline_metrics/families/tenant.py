"""Metrics by tenant: only a few, since each has one series per tenant."""

from collections.abc import Callable, Iterable

from hookline.finish_cause import Rejected
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.scheduler_stats import TenantStats
from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.families.finish_reasons import REASON, reason_of
from hookline_metrics.metric import Feature, Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading

TENANT = Label("tenant")


def _of_tenant(
    number: Callable[[FinishedRequest], float | None],
) -> Reading[FinishedRequest]:
    def points(request: FinishedRequest) -> Iterable[Point]:
        value = number(request)
        if value is None or not request.is_measured:
            return ()
        return (((request.facts.tenant or "",), value, 1),)

    return Reading(FinishedRequest, points)


def _ended(request: FinishedRequest) -> Iterable[Point]:
    return (((request.facts.tenant or "", reason_of(request)), 1, 1),)


def _limited(request: FinishedRequest) -> Iterable[Point]:
    cause = request.cause
    if isinstance(cause, Rejected) and cause.kind == "rate_limit_exceeded":
        return (((request.facts.tenant or "", cause.limit), 1, 1),)
    return ()


def _tokens(
    name: str, text: str, number: Callable[[FinishedRequest], float | None]
) -> Metric:
    return Metric(
        name=f"hookline_tenant_{name}_tokens",
        kind=Kind.COUNTER,
        unit="tokens",
        help=text,
        labels=(TENANT,),
        feature=Feature.TENANTS,
        value=_of_tenant(number),
    )


def _now(
    name: str, unit: str, text: str, number: Callable[[TenantStats], float]
) -> Metric:
    def points(state: StateReading) -> Iterable[Point]:
        tenants = state.stats.tenants
        return [((name,), number(each), 1) for name, each in tenants.items()]

    return Metric(
        name=f"hookline_tenant_{name}",
        kind=Kind.GAUGE,
        unit=unit,
        help=text,
        labels=(TENANT,),
        feature=Feature.TENANTS,
        value=Reading(StateReading, points),
    )


def _seconds(
    name: str,
    text: str,
    buckets: BucketFamily,
    number: Callable[[FinishedRequest], float | None],
) -> Metric:
    return Metric(
        name=f"hookline_tenant_{name}_seconds",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help=text,
        labels=(TENANT,),
        buckets=buckets,
        feature=Feature.TENANTS,
        value=_of_tenant(number),
    )


TENANT_METRICS: tuple[Metric, ...] = (
    Metric(
        name="hookline_tenant_requests_finished",
        kind=Kind.COUNTER,
        unit="requests",
        help="Finished requests by tenant and reason. Requests without a tenant count "
        "as none, tenants beyond the limit as other.",
        labels=(TENANT, REASON),
        feature=Feature.TENANTS,
        value=Reading(FinishedRequest, _ended),
    ),
    Metric(
        name="hookline_tenant_requests_limited",
        kind=Kind.COUNTER,
        unit="requests",
        help="Requests refused because a limit of their API key or tenant was reached, "
        "by tenant and limit; also counted in the rejected requests with code "
        "rate_limit_exceeded.",
        labels=(
            TENANT,
            Label(
                "limit",
                ("requests_per_minute", "tokens_per_minute", "concurrent_requests"),
            ),
        ),
        feature=Feature.TENANTS,
        value=Reading(FinishedRequest, _limited),
        needs=(Tells.FRONT_END,),
    ),
    _tokens(
        "prompt",
        "Prompt tokens of finished requests, cached tokens included.",
        lambda request: request.prompt_tokens,
    ),
    _tokens(
        "cached",
        "Prompt tokens of finished requests that were found in a cache.",
        lambda request: request.cached_tokens,
    ),
    _tokens(
        "generation",
        "Generated tokens of finished requests.",
        lambda request: request.output_tokens,
    ),
    _seconds(
        "time_to_first_token",
        "Time to first token: first token - arrival, observed when the request "
        "finishes.",
        BucketFamily.TIME_TO_FIRST_TOKEN,
        lambda request: None if request.decodes_elsewhere else request.ttft_seconds,
    ),
    _seconds(
        "request_e2e",
        "End-to-end latency: end - arrival, on the front end's clock.",
        BucketFamily.REQUEST_LATENCY,
        lambda request: request.e2e_seconds,
    ),
    _now(
        "requests_waiting",
        "requests",
        "Waiting requests by tenant, of up to 64 tenants; only under the scheduling "
        "policy fair.",
        lambda tenant: tenant.waiting,
    ),
    _now(
        "lag_tokens",
        "tokens",
        "Tokens by which a waiting tenant is behind the waiting tenant that was served "
        "most, by weight and with each output token counted twice; only under the "
        "scheduling policy fair.",
        lambda tenant: tenant.lag_tokens,
    ),
)
