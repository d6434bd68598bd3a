"""One dashboard over three engines: native, attached to a real vLLM, and a gateway."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from hookline_dashboards.coverage import ENGINES, Fed, fed, fed_panels
from hookline_dashboards.expressions import Names
from hookline_dashboards.panel import Query
from hookline_dashboards.rows import dashboard_rows
from hookline_faults.fleet import free_port
from hookline_metrics import CATALOGUE
from hookline_metrics.engine_tells import declared_by
from hookline_testing import prometheus_process
from hookline_testing.debian_programs import needed_program
from hookline_testing.own_time import Deadline
from hookline_testing.prometheus_process import Prometheus
from hookline_testing.server_process import Server, serving
from hookline_testing.vllm_server import VllmServer, vllm_serving

pytestmark = pytest.mark.vllm
NATIVE, ATTACHED, GATEWAY = ENGINES
PAGES = {NATIVE: "/metrics", ATTACHED: "/hookline/metrics", GATEWAY: "/metrics"}
WINDOW = "15s"
BUSY_SECONDS = 25.0
REQUESTS = ("Overview", "Latency", "SLO", "Request sizes")
"""Rows of what happens to each request."""
QUIET = re.compile(r"preempt|reject|limit|corrupt|missed", re.IGNORECASE)
"""Titles of what happens to no request of this test."""


@contextmanager
def gateway(url: str, folder: Path) -> Iterator[int]:
    """A gateway in front of a server; gives its port."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "hookline_server", "gateway", url),
        *("--port", str(port), "--slo", "ttft=1,tpot=1"),
    ]
    with (
        (folder / "gateway.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            deadline = Deadline(60.0)
            while deadline.is_ahead:
                with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/health"):
                    break
                time.sleep(0.2)
            yield port
        finally:
            process.terminate()


def scrape_config(ports: Mapping[str, int]) -> dict[str, object]:
    """Prometheus's configuration, in which each engine is an instance."""
    jobs = [
        {
            "job_name": name,
            "metrics_path": PAGES[name],
            "static_configs": [
                {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}}
            ],
        }
        for name, port in ports.items()
    ]
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}


def filled(query: Query, instance: str) -> str:
    """An expression with the dashboard's variables filled in for one instance."""
    values = {"$model_name": ".*", "$instance": instance, "$engine": ".*"}
    found = query.expression.replace("$__rate_interval", WINDOW)
    for name, value in values.items():
        found = found.replace(name, value)
    return found


def load(native: Server, through: VllmServer) -> None:
    """Asks both servers again and again."""
    deadline, number = Deadline(BUSY_SECONDS), 0
    while deadline.is_ahead:
        number += 1
        body = {"prompt": f"x {number}", "max_tokens": 12, "ignore_eos": True}
        native.post("/v1/completions", {"model": "demo", **body})
        through.ask(number, tokens=12)


def test_panels_have_numbers_for_whom_they_are_declared(tmp_path: Path) -> None:
    """What an engine does not tell has none, and each of its requests is in some."""
    program = needed_program("prometheus")
    (options := tmp_path / "hookline.yaml").write_text("slo: ttft=1,tpot=1\n")
    plugins = {"VLLM_PLUGINS": "hookline", "HOOKLINE_CONFIG": str(options)}
    with (
        vllm_serving(tmp_path, **plugins) as vllm,
        gateway(f"http://127.0.0.1:{vllm.port}", tmp_path) as port,
        serving("--port=0", "--executor=simulated", "--slo=ttft=1,tpot=1") as native,
    ):
        ports = {NATIVE: native.port, ATTACHED: vllm.port, GATEWAY: port}
        config = scrape_config(ports)
        with prometheus_process.scraping(program, tmp_path, config) as prometheus:
            load(native, VllmServer(vllm.process, port, vllm.log))
            found = {name: rows_of(prometheus, name) for name in ENGINES}

    for name, rows in found.items():
        counts = {row: sum(panels.values()) for row, panels in rows.items()}
        print(name, counts)  # noqa: T201 - for pytest -s
        empty = [
            panel
            for row in REQUESTS
            for panel, is_there in rows[row].items()
            if not is_there and not QUIET.search(panel)
        ]
        assert (name, empty) == (name, [])


def rows_of(prometheus: Prometheus, name: str) -> Mapping[str, Mapping[str, bool]]:
    """Which panels of each row have numbers, of those that the engine can feed."""
    tells, names = declared_by(name), Names(CATALOGUE)
    found: dict[str, dict[str, bool]] = {}
    for row in dashboard_rows(CATALOGUE):
        panels = found[row.title] = {}
        for panel in row.panels:
            there = [
                fed(query.expression, tells, names)
                for query in panel.queries
                if prometheus.values(filled(query, name))
            ]
            assert Fed.NEVER not in there, f"{name} has {panel.title}"
            if panel in fed_panels(row, tells, names):
                panels[panel.title] = bool(there)
    return found
