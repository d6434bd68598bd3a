"""HTTP requests under Hookline's names and under vLLM's."""

import pytest

from hookline.config import EngineConfig
from hookline.payloads import CLIENT_LEFT, HttpAnswered, HttpExchange
from hookline_metrics import HistogramValue, Recorder
from hookline_metrics.config import MetricsConfig

DIALECTS = ("hookline", "vllm")
API = "/v1/completions"
FAMILIES = (
    *("http_requests", "http_request_duration_seconds"),
    *("http_request_duration_highr_seconds", "http_request_size_bytes"),
    "http_response_size_bytes",
)


def told(name: str, *exchanges: tuple[str, int]) -> dict[tuple[str, ...], float]:
    """A family's values, or histograms' counts, after requests by (route, status).

    By labels without the model's name, the first of them.
    """
    metrics = MetricsConfig(dialects=DIALECTS)
    recorder = Recorder(EngineConfig(sections={"metrics": metrics}))
    answered = HttpAnswered(
        exchanges=tuple(
            HttpExchange(
                route=route,
                method="POST",
                status=status,
                seconds=0.5,
                request_bytes=10,
                response_bytes=20,
            )
            for route, status in exchanges
        ),
        in_flight={},
    )
    recorder.http_answered(answered)
    [family] = [each for each in recorder.snapshot() if each.name == name]
    return {
        sample.labels[1:]: sample.value.count
        if isinstance(sample.value, HistogramValue)
        else sample.value
        for sample in family.samples
    }


def test_client_that_left_has_a_status_of_its_own() -> None:
    """A disconnect is neither a client's error nor a server's."""
    found = told("hookline_http_requests", (API, CLIENT_LEFT), (API, 404), (API, 200))

    assert found == {
        (API, "POST", "client_disconnect"): 1,
        (API, "POST", "4xx"): 1,
        (API, "POST", "2xx"): 1,
    }


def test_vllm_counts_a_client_that_left_as_answered() -> None:
    """The vllm dialect has only classes of statuses, and adds a disconnect to 2xx."""
    found = told("http_requests", (API, CLIENT_LEFT), (API, 404), (API, 200))

    assert found == {(API, "POST", "2xx"): 2, (API, "POST", "4xx"): 1}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "route",
    ["/metrics", "/health", "/health/live", "/load", "/ping", "/version", "/readyz"],
)
def test_vllm_leaves_probes_out(name: str, route: str) -> None:
    """Scrapes and probes are in none of the vllm dialect's HTTP families."""
    found = told(name, (route, 200), (API, 200))

    assert sum(found.values()) == 1


def test_probes_stay_in_own_names() -> None:
    """Under Hookline's names every route is counted."""
    found = told("hookline_http_requests", ("/metrics", 200), (API, 200))

    assert sum(found.values()) == 2
