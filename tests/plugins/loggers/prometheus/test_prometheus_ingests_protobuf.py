"""A real Prometheus that prefers protobuf reads the page."""

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hookline.pages import PageRequest
from hookline_prometheus import PrometheusLogger
from hookline_testing.prometheus_process import Prometheus, find_program, scraping

PROGRAM = find_program("prometheus")
FEATURE = "--enable-feature=native-histograms"
"""With it Prometheus prefers protobuf."""


def version() -> tuple[int, ...]:
    command = [str(PROGRAM), "--version"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)\.(\d+)", told)
    assert found is not None, told
    return int(found[1]), int(found[2])


@pytest.fixture
def port(fed: PrometheusLogger) -> Iterator[int]:
    """Serves the logger's page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = fed.page(PageRequest(headers=headers, query={}))
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
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_prometheus_reads_every_sample_of_the_page(
    fed: PrometheusLogger, port: int, tmp_path: Path
) -> None:
    """As many samples are scraped in protobuf as there are lines in the text."""
    if PROGRAM is None or version() < (2, 40):
        pytest.skip("needs Prometheus 2.40 or newer")
    target = {"targets": [f"127.0.0.1:{port}"]}
    job = {"job_name": "page", "scrape_interval": "1s", "static_configs": [target]}
    text = fed.page(PageRequest(headers={}, query={})).body.decode()

    with scraping(PROGRAM, tmp_path, {"scrape_configs": [job]}, FEATURE) as prometheus:
        found = scraped_samples(prometheus)

    assert found == sum(not line.startswith("#") for line in text.splitlines())


def scraped_samples(prometheus: Prometheus) -> float:
    deadline = time.monotonic() + 60
    while not (found := prometheus.values("scrape_samples_scraped")):
        assert time.monotonic() < deadline, "nothing was scraped"
        time.sleep(0.2)
    assert prometheus.values("up") == [1.0]
    return found[0]
