"""Metrics by tenant: only a few, since each has one series per tenant."""

from collections.abc import Callable, Iterable

from hookline.finish_cause import Rejected
from hookline.stats.finished_request import FinishedRequest
from hookline.stats.scheduler_stats import TenantStats
from hookline.tells import Tells
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.families.request_accounts import RequestAccounts
from hookline_metrics.metric import Feature, Kind, Label, Metric, Point
from hookline_metrics.readings import Reading, StateReading

TENANT = Label("tenant")


_OF_TENANT = RequestAccounts(
    "hookline_tenant",
    TENANT,
    Feature.TENANTS,
    lambda request: request.facts.tenant or "",
)


def _limited(request: FinishedRequest) -> Iterable[Point]:
    cause = request.cause
    if isinstance(cause, Rejected) and cause.kind == "rate_limit_exceeded":
        return (((request.facts.tenant or "", cause.limit), 1, 1),)
    return ()


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


TENANT_METRICS: tuple[Metric, ...] = (
    _OF_TENANT.finished(
        "Finished requests by tenant and reason. Requests without a tenant count as "
        "none, tenants beyond the limit as other."
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
    _OF_TENANT.tokens(
        "prompt",
        "Prompt tokens of finished requests, cached tokens included.",
        lambda request: request.prompt_tokens,
    ),
    _OF_TENANT.tokens(
        "cached",
        "Prompt tokens of finished requests that were found in a cache.",
        lambda request: request.cached_tokens,
    ),
    _OF_TENANT.tokens(
        "generation",
        "Generated tokens of finished requests.",
        lambda request: request.output_tokens,
    ),
    _OF_TENANT.seconds(
        "time_to_first_token",
        "Time to first token: first token - arrival, observed when the request "
        "finishes.",
        BucketFamily.TIME_TO_FIRST_TOKEN,
        lambda request: None if request.decodes_elsewhere else request.ttft_seconds,
    ),
    _OF_TENANT.seconds(
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
