"""What a scrape is answered, whatever it accepts."""

from collections.abc import Callable

import pytest
from prometheus_client import Metric

from hookline_prometheus import PrometheusLogger

MakeLogger = Callable[..., PrometheusLogger]
Scrape = Callable[[PrometheusLogger, str], tuple[str, str]]
Parse = Callable[[str, str], dict[str, Metric]]

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
}


@pytest.mark.parametrize(("accept", "content_type"), VARIANTS.items())
def test_scrape_gets_an_accepted_format(
    fed: PrometheusLogger, scrape: Scrape, accept: str, content_type: str
) -> None:
    """The best-liked format that there is; classic text for everybody else."""
    answered, _ = scrape(fed, accept)

    assert answered == content_type


@pytest.mark.parametrize(
    "accept", {page: each for each, page in VARIANTS.items()}.values()
)
def test_names_come_out_right_in_every_variant(
    fed: PrometheusLogger, scrape: Scrape, parse: Parse, accept: str
) -> None:
    """Types and samples carry the same names, colons included, and can be read back."""
    families = parse(*scrape(fed, accept))

    for family in fed.recorder.snapshot():
        assert (family.name in families) == bool(family.samples)
        if not family.samples:
            continue
        assert families[family.name].type == family.kind.value
        assert families[family.name].documentation == family.help
        assert len(families[family.name].samples) >= len(family.samples)
    assert not any(name.startswith(("vllm_", "sglang_")) for name in families)
    assert families["vllm:num_requests_running"].samples[0].value == 2


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2, PROMETHEUS_3])
@pytest.mark.parametrize(
    "name", ["hookline_inter_token_seconds", "vllm:inter_token_latency_seconds"]
)
def test_histogram_is_cumulative(
    fed: PrometheusLogger, scrape: Scrape, parse: Parse, accept: str, name: str
) -> None:
    """Buckets count everything up to their bound, the last one everything."""
    samples = parse(*scrape(fed, accept))[name].samples

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


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2])
def test_no_series_has_a_created_sample(
    fed: PrometheusLogger, scrape: Scrape, parse: Parse, accept: str
) -> None:
    """There is no `_created` in either format."""
    families = parse(*scrape(fed, accept))

    names = {sample.name for family in families.values() for sample in family.samples}
    assert not any(name.endswith("_created") for name in names)


@pytest.mark.parametrize("accept", ["", PROMETHEUS_2])
def test_process_and_interpreter_are_on_the_page(
    fed: PrometheusLogger, scrape: Scrape, parse: Parse, accept: str
) -> None:
    """The default collectors of prometheus_client are there, in both formats."""
    families = parse(*scrape(fed, accept))

    assert "python_info" in families or "python" in families
    assert "python_gc_collections" in families
    assert families["process_resident_memory_bytes"].samples[0].value > 0


def test_engine_that_is_not_ready_has_a_page(
    make_logger: MakeLogger, scrape: Scrape, parse: Parse
) -> None:
    """Before engine_started nothing is told, so the page has the process's families."""
    logger = make_logger("vllm")

    families = parse(*scrape(logger, ""))

    told = {name: each.samples for name, each in families.items() if each.samples}
    assert not [name for name in told if name.startswith(("hookline", "vllm"))]
    assert "process_cpu_seconds" in families


def test_units_are_declared_if_names_end_with_them(
    fed: PrometheusLogger, scrape: Scrape
) -> None:
    """OpenMetrics declares units that are the last part of the name."""
    _, text = scrape(fed, "application/openmetrics-text")

    units = [line for line in text.splitlines() if line.startswith("# UNIT ")]

    assert "# UNIT hookline_kv_cache_usage_ratio ratio" in units
    assert "# UNIT vllm:e2e_request_latency_seconds seconds" in units
    assert all(line.split()[2].endswith(f"_{line.split()[3]}") for line in units)


def test_formats_differ_only_in_what_they_must(
    fed: PrometheusLogger, scrape: Scrape
) -> None:
    """Text types counters with `_total`; OpenMetrics has units and an end."""
    _, text = scrape(fed, "")
    _, openmetrics = scrape(fed, "application/openmetrics-text")

    assert "# TYPE vllm:generation_tokens_total counter\n" in text
    assert "# TYPE vllm:generation_tokens counter\n" in openmetrics
    assert "# EOF" not in text
    assert "# UNIT" not in text
    assert openmetrics.count("# EOF") == 1
    assert openmetrics.endswith("\n# EOF\n")
