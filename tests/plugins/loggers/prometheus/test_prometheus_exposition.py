"""What a scrape is answered, whatever it accepts."""

from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

from hookline.metrics import DIALECTS, Recorder
from hookline.metrics.testing import FINISHED, make_started, make_state, make_step
from hookline.payloads import PageRequest
from hookline.stats import IterationStats, SchedulerStats
from hookline_prometheus import PrometheusLogger
from hookline_registry import LaneStats

parse_openmetrics: Callable[[str], Iterable[Metric]] = (
    openmetrics_parser.text_string_to_metric_families
)

TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT_1 = "text/plain; version=1.0.0; charset=utf-8; escaping="
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
ESCAPED = f"{OPENMETRICS}; escaping="

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,"
    "application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,/;q=0.1"
)
PROTOBUF_FIRST = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
    "encoding=delimited;q=0.6," + PROMETHEUS_3
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

VARIANTS = {
    "": TEXT,
    "*/*": TEXT,
    BROWSER: TEXT,
    "text/plain": TEXT,
    "text/plain;version=0.0.4": TEXT,
    "text/plain;version=1.0.0": f"{TEXT_1}underscores",
    "text/plain;version=1.0.0;escaping=allow-utf-8": f"{TEXT_1}allow-utf-8",
    "text/plain;version=1.0.0;escaping=dots": f"{TEXT_1}underscores",
    "application/openmetrics-text": OPENMETRICS,
    "application/openmetrics-text;version=1.0.0": f"{ESCAPED}underscores",
    'application/openmetrics-text; version="1.0.0"; q=1': f"{ESCAPED}underscores",
    "application/openmetrics-text;version=1.0.0;escaping=underscores": (
        f"{ESCAPED}underscores"
    ),
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8": (
        f"{ESCAPED}allow-utf-8"
    ),
    "application/openmetrics-text;version=1.0.0;escaping=dots": f"{ESCAPED}underscores",
    "application/openmetrics-text;version=1.0.0;escaping=values": (
        f"{ESCAPED}underscores"
    ),
    "application/openmetrics-text;version=2.0.0": TEXT,
    "application/openmetrics-text;q=0, text/plain": TEXT,
    "application/openmetrics-text;q=0.2, text/plain;q=0.9": TEXT,
    "application/openmetrics-text;q=much": TEXT,
    ";;,=,": TEXT,
    PROMETHEUS_2: f"{ESCAPED}underscores",
    PROMETHEUS_3: f"{ESCAPED}allow-utf-8",
    PROTOBUF_FIRST: f"{ESCAPED}allow-utf-8",
}

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


def make_logger(*dialects: str) -> PrometheusLogger:
    """A logger that has seen a step and a heartbeat."""
    logger = PrometheusLogger(dialects or DIALECTS)
    iteration = IterationStats(
        prompt_tokens_computed=7,
        generation_tokens=4,
        ttft_seconds=(0.02,),
        inter_token_seconds=((0.01, 3), (0.03, 1)),
        finished=(FINISHED,),
    )
    scheduler = SchedulerStats(running=2, waiting=3, kv_blocks=40, kv_blocks_used=10)
    logger.engine_started(make_started())
    logger.step_finished(make_step(iteration, scheduler))
    logger.state_changed(make_state(scheduler=scheduler, lanes=(LANE,)))
    return logger


def scrape(logger: PrometheusLogger, accept: str) -> tuple[str, str]:
    """The content type and the text of the page."""
    answer = logger.page(PageRequest(headers={"accept": accept}, query={}))
    assert answer.status == 200
    return answer.content_type, answer.body.decode()


def parse(content_type: str, text: str) -> dict[str, Metric]:
    """Families by name, read as the content type says they are to be read."""
    is_openmetrics = content_type.startswith("application/openmetrics-text")
    families = parse_openmetrics(text) if is_openmetrics else parse_text(text)
    return {family.name: family for family in families}


def flatten(recorder: Recorder, dialects: Iterable[str]) -> int:
    """How many sample lines the recorder's snapshot makes."""
    lines = 0
    for family in recorder.snapshot(*dialects):
        for sample in family.samples:
            bounds = getattr(sample.value, "bounds", None)
            lines += 1 if bounds is None else len(bounds) + 3
    return lines


@pytest.mark.parametrize(("accept", "content_type"), VARIANTS.items())
def test_scrape_gets_what_it_accepts(accept: str, content_type: str) -> None:
    """The best-liked format that there is; classic text for everybody else."""
    logger = make_logger()

    answered, _ = scrape(logger, accept)

    assert answered == content_type


@pytest.mark.parametrize("accept", VARIANTS)
def test_names_come_out_right_in_every_variant(accept: str) -> None:
    """Types and samples carry the same names, colons included, and can be read back."""
    logger = make_logger()

    families = parse(*scrape(logger, accept))

    for family in logger.recorder.snapshot(*DIALECTS):
        if family.samples:
            assert families[family.name].type == family.kind.value
            assert families[family.name].documentation == family.help
            assert families[family.name].samples
    assert not any(name.startswith("vllm_") for name in families)
    assert families["vllm:num_requests_running"].samples[0].value == 2


@pytest.mark.parametrize("accept", VARIANTS)
def test_every_sample_arrives_in_every_variant(accept: str) -> None:
    """No series of the catalogue is lost or doubled, and none is `_created`."""
    logger = make_logger()

    samples = [
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in parse(*scrape(logger, accept)).values()
        for sample in family.samples
        if sample.name.startswith(("hookline_", "vllm:"))
    ]

    assert len(samples) == len(set(samples)) == flatten(logger.recorder, DIALECTS)
    assert not any(name.endswith("_created") for name, _ in samples)


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2, PROMETHEUS_3])
@pytest.mark.parametrize(
    "name", ["hookline_inter_token_seconds", "vllm:inter_token_latency_seconds"]
)
def test_histogram_is_cumulative(accept: str, name: str) -> None:
    """Buckets count everything up to their bound, the last one everything."""
    logger = make_logger()

    samples = parse(*scrape(logger, accept))[name].samples

    found = {
        sample.labels["le"]: sample.value for sample in samples if "le" in sample.labels
    }
    assert found["0.01"] == 3
    assert found["0.025"] == 3
    assert found["0.05"] == 4
    assert found["80.0"] == found["+Inf"] == 4
    assert {s.name: s.value for s in samples if "le" not in s.labels} == {
        f"{name}_count": 4,
        f"{name}_sum": pytest.approx(0.06),
    }


def test_every_series_says_whose_it_is() -> None:
    """All series have model_name and engine, but for vLLM's facts about the cache."""
    families = parse(*scrape(make_logger(), ""))

    for name, family in families.items():
        if name.startswith(("hookline_", "vllm:")) and name != "vllm:cache_config_info":
            for sample in family.samples:
                assert sample.labels["model_name"] == "tiny"
                assert sample.labels["engine"] == "0"


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2])
def test_label_values_are_escaped(accept: str) -> None:
    """Quotes and backslashes in a label value survive."""
    families = parse(*scrape(make_logger(), accept))

    (sample,) = families["hookline_logger_lane_depth"].samples
    assert sample.labels["logger"] == LANE.name


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2])
def test_process_and_interpreter_are_on_the_page(accept: str) -> None:
    """The default collectors of prometheus_client are there, in both formats."""
    families = parse(*scrape(make_logger(), accept))

    assert "python_info" in families or "python" in families
    assert "python_gc_collections" in families
    assert families["process_resident_memory_bytes"].samples[0].value > 0


def test_one_dialect_can_be_left_out() -> None:
    """Only the chosen dialects are exposed."""
    own = parse(*scrape(make_logger("hookline"), ""))
    vllm = parse(*scrape(make_logger("vllm"), ""))

    assert not any(name.startswith("vllm:") for name in own)
    assert not any(name.startswith("hookline_") for name in vllm)
    assert "vllm:generation_tokens" in vllm


def test_units_are_told_where_names_end_with_them() -> None:
    """OpenMetrics tells the unit of names that have it as their last part."""
    _, text = scrape(make_logger(), "application/openmetrics-text")

    units = [line for line in text.splitlines() if line.startswith("# UNIT ")]

    assert "# UNIT hookline_kv_cache_usage_ratio ratio" in units
    assert "# UNIT vllm:e2e_request_latency_seconds seconds" in units
    assert all(line.split()[2].endswith(f"_{line.split()[3]}") for line in units)


def test_engine_that_is_not_ready_has_a_page() -> None:
    """Before engine_started the page holds the process and nothing else."""
    logger = PrometheusLogger(DIALECTS)

    families = parse(*scrape(logger, ""))

    assert "process_cpu_seconds" in families
    assert not any(name.startswith(("hookline", "vllm")) for name in families)
