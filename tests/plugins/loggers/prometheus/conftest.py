"""Loggers that have seen something, and how their pages are read."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

import msgspec
import pytest
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.openmetrics.exposition import (
    generate_latest as generate_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

import hookline_metrics as metrics
from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import (
    CacheConfig,
    DetailedTrace,
    EngineConfig,
    ObserverConfig,
)
from hookline.config.extensions import GRAMMARS, KV_TRANSFER
from hookline.events import VerifiedDrafts
from hookline.finish_cause import Rejected
from hookline.front_end_parts import PlacementStats
from hookline.pages import PageRequest
from hookline.payloads import (
    FrontEndChanged,
    HttpAnswered,
    HttpExchange,
    PageStats,
)
from hookline.request import RequestFacts, Slo
from hookline.startup_timer import StartupPhase
from hookline.stats.finished_request import FinishedGroup
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.scheduler_stats import SchedulerStats, TenantStats
from hookline.stats.step_work import BlockEviction, Execution, RankUse
from hookline_metrics import DIALECTS, Family, HistogramValue, Kind
from hookline_metrics.adapters import (
    LORA,
    AdapterCounts,
    AdapterLevel,
    AdapterLoad,
    AdapterResidence,
    AdapterUsage,
    AdapterWait,
    LoraNews,
    LoraStats,
)
from hookline_metrics.config import MetricsConfig
from hookline_metrics.connector_events import (
    ConnectorLookup,
    TierAllocation,
    TierLookup,
    TierMove,
)
from hookline_metrics.expert_stats import ExpertStats
from hookline_metrics.front_end_parts import (
    EngineLink,
    IgnoredStats,
    LinkStats,
    ObserverStats,
    ParserFailures,
    ProcessStats,
    ResponseStoreStats,
    ScalingStats,
    StreamStats,
    UnknownFieldStats,
)
from hookline_metrics.grammars import GrammarCompiling, GrammarNews, GrammarStats
from hookline_metrics.transfer_stats import (
    KVLoad,
    TierStats,
    TransferNews,
    TransferStats,
)
from hookline_processes.usage import RoleUsage
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.options import Options
from hookline_registry import LaneStats
from hookline_testing.payloads import (
    FACTS,
    FINISHED,
    RECORD,
    make_started,
    make_state,
    make_step,
)

MakeLogger = Callable[..., PrometheusLogger]
Feed = Callable[[PrometheusLogger], None]
Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]
Parse = Callable[[str, str], dict[str, Metric]]
ToMetrics = Callable[..., list[Metric]]
RenderTheirs = Callable[[list[Metric], MediaType], bytes]

NOW = 1_800_000_000 * NANOSECONDS
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"

WITH_ALL = msgspec.structs.replace(
    RECORD,
    verified=VerifiedDrafts(1, 3, 2, (1, 1)),
    execution=Execution(rank_use=RankUse(expert_tokens=(3, 1))),
)

LANE = LaneStats(
    name='a "quoted" \\ name',
    depth=1,
    delivered=2,
    dropped=3,
    errors=4,
    busy_seconds=0.5,
    breaker="closed",
    last_error=None,
)

PROCESSES = ProcessStats(
    roles=(
        RoleUsage(
            role="engine-0",
            engine="0",
            processes=1,
            resident_bytes=1 << 20,
            cpu_seconds=1.5,
            open_fds=9,
            threads=5,
            started_at=1_700_000_000.0,
        ),
        RoleUsage(role="text", processes=2, threads=4),
    )
)

REQUEST = dataclasses.replace(
    FINISHED,
    facts=RequestFacts(
        client_id="a",
        tenant="acme",
        lora='le"gal',
        trace_id=TRACE_ID,
        slo=Slo(ttft=1, e2e=10),
    ),
    draft_tokens=7,
    accepted_tokens=4,
    output_tokens=1_234_567,
    forward_seconds=0.25,
    execute_seconds=0.5,
)
REJECTED = dataclasses.replace(
    FINISHED, cause=Rejected("overloaded", "2 completions are open")
)
LIMITED = dataclasses.replace(
    FINISHED, cause=Rejected("rate_limit_exceeded", "wait", "tokens_per_minute")
)

ITERATION = IterationStats(
    prompt_tokens_computed=7,
    generation_tokens=4,
    first_scheduled=(FirstScheduled(queue_seconds=0.25, trace_id=TRACE_ID),),
    first_tokens=(
        FirstToken(
            seconds=0.02, prefill_seconds=0.5, is_streamed=True, trace_id=TRACE_ID
        ),
    ),
    inter_token_seconds=((0.01, 3), (0.03, 1)),
    finished=(REQUEST, REJECTED, LIMITED),
    finished_groups=(
        FinishedGroup(requests=(dataclasses.replace(REQUEST, output_tokens=55),)),
    ),
    evictions=(BlockEviction(lifetime=NANOSECONDS, idle=5, reuse_gaps=(7, 9)),),
    sections={
        GRAMMARS: GrammarNews([GrammarCompiling(0.5)]),
        LORA: LoraNews(
            waits=[AdapterWait(1, 'le"gal', 0, 2 * NANOSECONDS, 1.5)],
            loads=[AdapterLoad('le"gal', "ab", 1.5, 512)],
            usages=[AdapterUsage(1, 'le"gal', 12.5)],
            residency={
                'le"gal': AdapterResidence(AdapterLevel.SLOT, is_pinned=True, rank=16)
            },
        ),
        KV_TRANSFER: TransferNews(
            loads=(KVLoad(nanoseconds=3_000_000, tokens=32),),
            events=(
                ConnectorLookup(3_000),
                *(TierLookup(tier, 2_000) for tier in ("cpu", "disk")),
                *(TierAllocation(tier, 2) for tier in ("cpu", "disk")),
                *(
                    TierMove(tier, direction, 200, 40_000)
                    for tier in ("cpu", "disk")
                    for direction in ("in", "out")
                ),
            ),
        ),
    },
    moved=1,
    migrated_in=1,
)
"""Of everything there is, at least once."""

SCHEDULER = SchedulerStats(
    running=2,
    waiting=3,
    kv_blocks=40,
    kv_blocks_used=10,
    tenants={"acme": TenantStats(waiting=2, lag_tokens=1.5)},
    evicted_blocks=7,
    sections={
        "experts": ExpertStats(tokens=(12, 4), busiest_tokens=24, dummy_steps=3),
        "grammars": GrammarStats(
            hits=5, misses=2, ended={"compiled": 2}, cache_bytes=2048
        ),
        LORA: LoraStats(
            slots=4, slots_used=1, in_memory=1, adapters={'le"gal': AdapterCounts(1)}
        ),
        KV_TRANSFER: TransferStats(
            tiers={
                "cpu": TierStats(blocks=3, max_blocks=9, max_bytes=90, in_bytes=50),
                "disk": TierStats(blocks=2, max_blocks=9, max_bytes=95, in_bytes=20),
            }
        ),
    },
)

PARSERS = ParserFailures(
    failures=(("tool", "hermes", 4),), repairs=(("tool", "hermes", "cut", 3),)
)

STREAMS = StreamStats(keep_alives=3)
UNKNOWN_FIELDS = UnknownFieldStats(fields=(("user", 4),))
IGNORED = IgnoredStats(elements=(("messages", "tool.web_search", 2),))

STORED = ResponseStoreStats(entries=3, bytes=4096, evictions=(("age", 2),))
PLACED = PlacementStats(requests=(("0", "load", 4),))
SCALED = ScalingStats(serving=1, minimum=1, maximum=2, decisions=(("demand", 1),))
LINKED = LinkStats(
    engines=(
        EngineLink(
            engine_index=1,
            host="node-b",
            is_up=True,
            joined=2,
            lost=1,
            round_trip_seconds=0.25,
        ),
    ),
    refused=3,
)
OBSERVED = ObserverStats(
    front_ends=2, waited_seconds=0.25, dropped=3, restarts=1, left_out=("a",)
)

ANSWERED = HttpAnswered(
    exchanges=(
        HttpExchange(
            route="/v1/completions",
            method="POST",
            status=200,
            seconds=0.5,
            request_bytes=100,
            response_bytes=30_000_000,
        ),
    ),
    in_flight={("/v1/completions", "POST"): 1},
    pages=(PageStats(logger="prometheus", hung=1, raised=2, timed_out=3, refused=4),),
)


@pytest.fixture(scope="session")
def make_logger() -> MakeLogger:
    """Makes a logger of these dialects, all by default, with every feature on."""

    def make(
        *dialects: str, options: Options | None = None, **metrics: object
    ) -> PrometheusLogger:
        chosen = MetricsConfig(
            dialects=dialects or DIALECTS,
            max_tenants=2,
            show_hidden_for_version="0.0",
            **metrics,  # type: ignore[arg-type]
        )
        config = EngineConfig(
            cache=CacheConfig(residency_sample=0.5),
            extensions={LORA: {}},
            observers=ObserverConfig(detailed_traces=(DetailedTrace.ALL,)),
            sections={"metrics": chosen},
        )
        return PrometheusLogger(config, options, clock=VirtualClock(NOW))

    return make


@pytest.fixture(scope="session")
def feed() -> Feed:
    """Shows a logger, whose engine has started, something of everything."""

    def show(logger: PrometheusLogger) -> None:
        logger.step_finished(make_step(ITERATION, SCHEDULER, record=WITH_ALL))
        logger.state_changed(make_state(scheduler=SCHEDULER, lanes=(LANE,)))
        logger.http_answered(ANSWERED)
        logger.front_end_changed(
            FrontEndChanged(
                parts=(
                    *(PARSERS, STREAMS, UNKNOWN_FIELDS, IGNORED, STORED, PLACED),
                    *(OBSERVED, LINKED, SCALED, PROCESSES),
                )
            )
        )

    return show


@pytest.fixture
def fed(make_logger: MakeLogger, feed: Feed) -> PrometheusLogger:
    """A logger that has seen something of everything."""
    logger = make_logger()
    phase = StartupPhase(name="load weights", started_at=NOW, seconds=2.0)
    facts = dataclasses.replace(FACTS, startup=(phase,))
    logger.engine_started(make_started(facts))
    feed(logger)
    return logger


@pytest.fixture(scope="session")
def scrape() -> Scrape:
    """Gets the content type and the text of a logger's page."""

    def get(logger: PrometheusLogger, accept: str) -> tuple[str, str]:
        answer = logger.page(PageRequest(headers={"accept": accept}, query={}))
        assert answer.status == 200
        return answer.content_type, answer.body.decode()

    return get


@pytest.fixture(scope="session")
def parse() -> Parse:
    """Parses a page by its content type; returns families by name."""
    parse_openmetrics: Callable[[str], Iterable[Metric]] = (
        openmetrics_parser.text_string_to_metric_families
    )

    def read(content_type: str, text: str) -> dict[str, Metric]:
        is_openmetrics = content_type.startswith("application/openmetrics-text")
        families = parse_openmetrics(text) if is_openmetrics else parse_text(text)
        return {family.name: family for family in families}

    return read


@pytest.fixture(scope="session")
def to_metrics() -> ToMetrics:
    """Makes families prometheus_client's own, as they are to be in a format."""

    def make(
        families: Iterable[Family], media_type: MediaType, *, has_created: bool = False
    ) -> list[Metric]:
        is_openmetrics = media_type is MediaType.OPENMETRICS
        return [
            _metric(
                family,
                has_exemplars=is_openmetrics,
                has_created=is_openmetrics and has_created,
            )
            for family in families
        ]

    return make


@pytest.fixture(scope="session")
def render_theirs() -> RenderTheirs:
    """Renders metrics as prometheus_client does, without the format's end."""

    class Registry:
        def __init__(self, metrics: list[Metric]) -> None:
            self._metrics = metrics

        def collect(self) -> Iterable[Metric]:
            return self._metrics

    def render(metrics: list[Metric], media_type: MediaType) -> bytes:
        generate: Callable[..., bytes] = (
            generate_openmetrics
            if media_type is MediaType.OPENMETRICS
            else generate_text
        )
        page = generate(Registry(metrics), escaping="allow-utf-8")
        return page.removesuffix(b"# EOF\n")

    return render


def _metric(family: Family, *, has_exemplars: bool, has_created: bool) -> Metric:
    unit = family.unit if family.name.endswith(f"_{family.unit}") else ""
    metric = Metric(family.name, family.help, family.kind.value, unit)
    suffix = "_total" if family.kind is Kind.COUNTER else ""
    for sample in family.samples:
        labels = dict(zip(family.label_names, sample.labels, strict=True))
        value = sample.value
        if isinstance(value, HistogramValue):
            if family.kind is Kind.HISTOGRAM:
                _add_buckets(metric, labels, value, has_exemplars=has_exemplars)
            metric.add_sample(f"{family.name}_count", labels, value.count)
            metric.add_sample(f"{family.name}_sum", labels, value.sum)
        else:
            metric.add_sample(f"{family.name}{suffix}", labels, value)
        if has_created and sample.since is not None:
            metric.add_sample(f"{family.name}_created", labels, sample.since)
    return metric


def _add_buckets(
    metric: Metric,
    labels: Mapping[str, str],
    value: HistogramValue,
    *,
    has_exemplars: bool,
) -> None:
    write: Callable[[float], str] = floatToGoString
    limits = (*map(write, value.bounds), "+Inf")
    exemplars = {
        index: Exemplar(_exemplar_labels(each), each.value, each.at)
        for index, each in value.exemplars.items()
        if has_exemplars
    }
    for index, count in enumerate(accumulate(value.counts)):
        metric.add_sample(
            f"{metric.name}_bucket",
            {**labels, "le": limits[index]},
            count,
            exemplar=exemplars.get(index),
        )


def _exemplar_labels(exemplar: metrics.Exemplar) -> dict[str, str]:
    span = {"span_id": exemplar.span_id} if exemplar.span_id else {}
    return {"trace_id": exemplar.trace_id, **span}
