"""A real Prometheus that prefers protobuf reads the page."""

import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from hookline.pages import PageRequest
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline_metrics import HistogramValue, Kind
from hookline_prometheus import PrometheusLogger
from hookline_prometheus.options import Options
from hookline_testing.debian_programs import needed_program
from hookline_testing.own_time import Deadline
from hookline_testing.payloads import FACTS, make_started, make_step
from hookline_testing.prometheus_process import Prometheus, scraping

Feed = Callable[[PrometheusLogger], None]
MakeLogger = Callable[..., PrometheusLogger]

FEATURE = "--enable-feature=native-histograms"
"""With it Prometheus prefers protobuf, and takes native histograms."""

pytestmark = pytest.mark.slow


def version(program: Path) -> tuple[int, ...]:
    command = [str(program), "--version"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)\.(\d+)", told)
    assert found is not None, told
    return int(found[1]), int(found[2])


@contextmanager
def served(logger: PrometheusLogger) -> Iterator[int]:
    """Serves the logger's page on a port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = logger.page(PageRequest(headers=headers, query={}))
            assert answer.content_type.startswith("application/vnd.google.protobuf")
            self.send_response(200)
            self.send_header("Content-Type", answer.content_type)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def scraped(logger: PrometheusLogger, folder: Path) -> Iterator[Prometheus]:
    """Runs a Prometheus that has scraped the logger's page."""
    program = needed_program("prometheus")
    if not (2, 40) <= version(program) < (3, 9):
        pytest.skip("needs a Prometheus with the feature, 2.40 to 3.8")
    with served(logger) as port:
        target = {"targets": [f"127.0.0.1:{port}"]}
        # The interval is a scrape's limit, too; a busy machine may take seconds.
        job = {"job_name": "page", "scrape_interval": "5s", "static_configs": [target]}
        config = {"scrape_configs": [job]}
        with scraping(program, folder, config, FEATURE) as prometheus:
            deadline = Deadline(60)
            while (up := prometheus.values("up")) != [1.0]:
                assert deadline.is_ahead, f"up is {up}, not [1.0]"
                time.sleep(0.2)
            yield prometheus


def test_prometheus_reads_every_sample_of_the_page(
    make_logger: MakeLogger, feed: Feed, tmp_path: Path
) -> None:
    """Without native histograms, as many samples are scraped in protobuf as there are
    lines in the text."""
    logger = make_logger(options=Options(native_schema=None))
    logger.engine_started(make_started(FACTS))
    feed(logger)
    text = logger.page(PageRequest(headers={}, query={})).body.decode()

    with scraped(logger, tmp_path) as prometheus:
        found = prometheus.values("scrape_samples_scraped")

    assert found == [sum(not line.startswith("#") for line in text.splitlines())]


def test_prometheus_takes_every_histogram_as_a_native_one(
    fed: PrometheusLogger, tmp_path: Path
) -> None:
    """Each has the count and the sum of the page, also without observations."""
    expected = {
        family.name: [
            sample.value
            for sample in family.samples
            if isinstance(sample.value, HistogramValue)
        ]
        for family in fed.recorder.snapshot()
        if family.kind is Kind.HISTOGRAM
    }
    assert len(expected) > 50
    assert any(value.count == 0 for values in expected.values() for value in values)

    with scraped(fed, tmp_path) as prometheus:
        for name, values in expected.items():
            counts = prometheus.values(f"histogram_count({name})")
            sums = prometheus.values(f"histogram_sum({name})")
            assert sorted(counts) == sorted(each.count for each in values), name
            assert sorted(sums) == sorted(each.sum for each in values), name


def test_quantiles_of_native_histograms_are_those_of_the_client(
    make_logger: MakeLogger, tmp_path: Path
) -> None:
    """From 0.1 ms to a minute, Prometheus' quantiles of latencies are within 5 percent
    of those of the observed values themselves."""
    source = random.Random(21)  # noqa: S311 - no secret
    first = [source.lognormvariate(-3, 1.5) for _ in range(3000)]
    later = [source.lognormvariate(-5, 1) for _ in range(3000)]
    logger = make_logger("hookline")
    logger.engine_started(make_started(FACTS))
    for seconds, interval in zip(first, later, strict=True):
        begun = FirstToken(seconds=seconds, prefill_seconds=seconds)
        iteration = IterationStats(
            first_tokens=(begun,), inter_token_seconds=((interval, 1),)
        )
        logger.step_finished(make_step(iteration))

    with scraped(logger, tmp_path) as prometheus:
        for name, values in (("time_to_first_token", first), ("inter_token", later)):
            for share in (0.5, 0.9, 0.99):
                query = f"histogram_quantile({share}, hookline_{name}_seconds)"
                [found] = prometheus.values(query)
                exact = float(np.quantile(values, share))
                assert found == pytest.approx(exact, rel=0.05), query
