"""A real Prometheus with Hookline's rules, scraping a server under load."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from hookline_dashboards.files import ALERT_GROUPS
from hookline_dashboards.recordings import RECORDING_GROUPS
from hookline_dashboards.rows import dashboard_rows
from hookline_faults.fleet import free_port
from hookline_metrics import CATALOGUE
from hookline_testing import prometheus_process
from hookline_testing.headless_process import headless
from hookline_testing.oracle import make_oracle
from hookline_testing.own_time import Deadline
from hookline_testing.prometheus_process import Prometheus
from hookline_testing.server_process import engine_of

Body = dict[str, object]

LIMIT = 90.0
SELECTOR = re.compile(r"\b(?:\w+:)?hookline_[\w:]+(?:\{[^}]*\})?|\bup\{[^}]*\}")
VARIABLES = {
    "$model_name": ".*",
    "$instance": ".*",
    "$engine": ".*",
    "$__rate_interval": "15s",
}
WINDOW_IS_FULL = "count_over_time(hookline_engine_up[15s]) >= 15"
UNWANTED = (
    "HooklineTargetDown|HooklineEngineDown|HooklineStalled|HooklineSnapshotStale"
    "|HooklineConservation|HooklineLaneDrops|HooklineBreakerOpen"
    "|HooklineKvConnectorFails"
)
# So little room that requests wait, are refused, preempted and evict each other.
TIGHT = (
    "--num-kv-blocks=40",
    "--max-model-len=384",
    "--max-num-seqs=8",
    "--max-num-queued-reqs=12",
    "--slo=ttft=0.05,tpot=0.05,e2e=5",
)
# Everything that brings metrics of its own.
FEATURES = (
    "--kv-cache-metrics-sample=1",
    "--tenant-header=X-Tenant",
    "--tenant=known",
    '--speculative-config={"method": "ngram", "num_speculative_tokens": 3}',
    '--kv-transfer-config={"kv_connector": "cpu_offload"}',
    "--scheduling-policy=fair",
    "--tool-call-parser=hermes",
    "--autoscale=1:1",
)
ASLEEP = "hookline_sleep_"
"""Begin of the names of what an engine with a KV connector never does."""
EXPERTS = "hookline_expert_"
"""Begin of the names of what only ranks with whole experts have."""
ELSEWHERE = ("hookline_engine_machine_", "hookline_engine_link_")
"""Begins of the names of what only engines of other machines have."""
LEFT_OUT = "hookline_logger_left_out"
"""Name of what only an observer process has, once a logger has ended it."""
APART = (ASLEEP, EXPERTS, *ELSEWHERE, LEFT_OUT)
"""Each of them has a test of its own."""
ENDING = """
import os, signal

from hookline import hookimpl


class Ending:
    def __init__(self, context):
        pass

    @hookimpl
    def step_finished(self, step):
        os.kill(os.getpid(), signal.SIGKILL)
"""
SLIP = '<tool_call>\n{"name": "f", "arguments": {"a": 1,}}\n</tool_call>'
"""A call with a comma too many, which the parser mends."""
KEY = "sk-unlimited"
LIMITED_KEY = "sk-limited"
KEYS = {
    "keys": [
        {"name": "unlimited", "key": KEY, "scopes": ["serve", "metrics"]},
        {
            "name": "limited",
            "key": LIMITED_KEY,
            "tenant": "known",
            "limits": {"requests_per_minute": 1},
        },
    ]
}


class Server:
    """A running `hookline serve` on a free port."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        lines = iter(process.stdout)
        found = (
            re.search(r"^\s*API\s+http://127.0.0.1:(\d+)/", line) for line in lines
        )
        self.port = int(next(match for match in found if match)[1])
        next(line for line in lines if line.strip().startswith("curl"))

    def engine_pid(self) -> int:
        return engine_of(self._process.pid)

    def complete(self, body: Body, tenant: str = "known") -> None:
        """Asks for completions, whatever becomes of them."""
        connection = self._asked(body, tenant)
        connection.getresponse().read()
        connection.close()

    def leave(self, body: Body) -> None:
        """Asks for a streamed completion and leaves after its first event."""
        connection = self._asked({**body, "stream": True}, "known")
        connection.getresponse().readline()
        connection.close()

    def be_late(self, body: Body) -> None:
        """Asks for completions with a deadline that cannot be met: a 504."""
        connection = self._asked(body, "known", {"X-Request-Timeout": "0.001"})
        connection.getresponse().read()
        connection.close()

    def ask_too_often(self) -> None:
        """Asks by a key that has a limit."""
        headers = {"Authorization": f"Bearer {LIMITED_KEY}"}
        connection = self._asked({"prompt": "x"}, "known", headers)
        connection.getresponse().read()
        connection.close()

    def sleep_and_wake(self, _: int) -> None:
        """Puts the engine to sleep and wakes it up."""
        for path in ("/sleep?level=1", "/wake_up"):
            connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("POST", path)
            assert connection.getresponse().status == 200
            connection.close()

    def slip(self, _: int) -> None:
        """Asks for a call that has to be mended."""
        tool = {"type": "function", "function": {"name": "f"}}
        said = [{"role": "user", "content": "x"}]
        body = {"structured_outputs": {"choice": [SLIP]}, "max_tokens": 64}
        self._post("/v1/chat/completions", body | {"messages": said, "tools": [tool]})

    def offer_too_much(self, _: int) -> None:
        """Offers a tool that the server has not got, and leaves out."""
        tool = {"type": "web_search_20250305", "name": "web_search"}
        said = [{"role": "user", "content": "x"}]
        body = {"messages": said, "tools": [tool], "max_tokens": 1}
        self._post("/v1/messages", body)

    def _post(self, path: str, body: Body) -> None:
        connection = self._asked(body, "known", path=path)
        connection.getresponse().read()
        connection.close()

    def _asked(
        self,
        body: Body,
        tenant: str,
        headers: Mapping[str, str] | None = None,
        path: str = "/v1/completions",
    ) -> HTTPConnection:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        text = json.dumps({"model": "demo", **body})
        sent = {
            "X-Tenant": tenant,
            "Authorization": f"Bearer {KEY}",
            **(headers or {}),
        }
        connection.request("POST", path, text, sent)
        return connection


@contextmanager
def process(*command: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, text=True, **options) as started:
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()


@contextmanager
def serving(log: Path, *argv: str) -> Iterator[Server]:
    command = [sys.executable, "-m", "hookline_server", "serve", "--port=0", *argv]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        log.open("w") as errors,
        process(
            *command, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as started,
    ):
        yield Server(started)


@contextmanager
def scraping(
    program: Path, folder: Path, rules_folder: Path, port: int
) -> Iterator[Prometheus]:
    """Prometheus with the project's own configuration, but another pace and target."""
    config = yaml.safe_load((rules_folder / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["authorization"] = {"credentials": KEY}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    config["rule_files"] = [str(rules_folder / name) for name in config["rule_files"]]
    with prometheus_process.scraping(program, folder, config) as prometheus:
        yield prometheus


def sample(prometheus: Prometheus, expression: str) -> str | None:
    """A finite value of the expression and their number, if it has one."""
    values = prometheus.values(expression)
    if not values:
        return None
    return f"{max(values, key=abs):.4g} ({len(values)} series)"


def load(server: Server) -> AbstractContextManager[None]:
    """Clients of every kind, until the end of the block."""
    return repeating(
        *[lambda number: server.complete(_long(number))] * 6,
        lambda number: server.complete({**_long(number), "n": 2}),
        lambda number: server.leave(_long(number)),
        lambda number: server.complete({"prompt": "x"}, f"stranger {number}"),
        lambda _: server.complete({"prompt": "x", "max_tokens": "many"}),
        lambda _: server.complete({"prompt": "x", "max_tokens": 1, "user": "a"}),
        lambda _: server.complete({"prompt": ["x"] * 99}),  # more than may wait
        lambda number: server.be_late(_long(number)),
        lambda _: server.ask_too_often(),
        lambda number: server.complete(_new_grammar(number)),
        server.slip,
        server.offer_too_much,
    )


@contextmanager
def repeating(*work: Callable[[int], None]) -> Iterator[None]:
    """Does everything again and again, at the same time, until the end of the block."""
    done = Event()
    with ThreadPoolExecutor(len(work)) as pool:
        clients = [pool.submit(_repeat, done, ask) for ask in work]
        try:
            yield
        finally:
            done.set()
    for client in clients:
        client.result()


def _long(number: int) -> Body:
    """A prompt that begins like every fourth one, and tokens enough to be preempted."""
    prefix = f"# file {number % 4}\n" + "import os\nimport sys\n" * 4
    return {
        "prompt": f"{prefix}def function_{number}(",
        "max_tokens": 96,
        "ignore_eos": True,
    }


def _new_grammar(number: int) -> Body:
    """An output of a form that nobody has asked for before."""
    form = {"choice": [f"choice {number}", "none"]}
    return {"prompt": "x", "max_tokens": 8, "structured_outputs": form}


def _repeat(done: Event, ask: Callable[[int], None]) -> None:
    number = 0
    while not done.wait(0.1):
        ask(number)
        number += 1


def wait_for_samples(
    prometheus: Prometheus, expressions: Iterable[str]
) -> dict[str, str | None]:
    """Each expression with a sample of it, as soon as all have one."""
    found: dict[str, str | None] = dict.fromkeys(expressions)
    deadline = Deadline(LIMIT)
    while deadline.is_ahead:
        for expression in [each for each, value in found.items() if value is None]:
            found[expression] = sample(prometheus, expression)
        if None not in found.values():
            break
        time.sleep(0.5)
    return found


def panel_expressions() -> list[str]:
    """Those of the dashboard, with its variables filled in as Grafana does."""
    found = []
    for row in dashboard_rows(CATALOGUE):
        for query in (query for panel in row.panels for query in panel.queries):
            expression = query.expression
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            found.append(expression)
    return found


def rule_expressions() -> list[str]:
    """The series that are recorded, and all that recordings and alerts read."""
    recorded = [rule for group in RECORDING_GROUPS for rule in group.rules]
    alerts = [rule for group in ALERT_GROUPS for rule in group.rules]
    read = [
        selector
        for rule in (*recorded, *alerts)
        for selector in SELECTOR.findall(rule.expression)
    ]
    return list(dict.fromkeys((*(rule.name for rule in recorded), *read)))


@pytest.mark.exhaustive
def test_every_panel_and_rule_has_data(
    prometheus: Path, rules_folder: Path, tmp_path: Path
) -> None:
    """Under load each panel, recorded series and alert has numbers to work with."""
    expressions = [
        each
        for each in (*panel_expressions(), *rule_expressions())
        if not any(name in each for name in APART)
    ]
    keys = tmp_path / "keys.yaml"
    keys.write_text(yaml.safe_dump(KEYS))
    keyed = (*FEATURES, f"--api-keys={keys}")

    with (
        serving(tmp_path / "server.log", *TIGHT, *keyed) as server,
        scraping(prometheus, tmp_path, rules_folder, server.port) as scraper,
        load(server),
    ):
        wait_for_samples(scraper, [WINDOW_IS_FULL])
        samples = wait_for_samples(scraper, expressions)
        rules = scraper.rules()
        unwanted = scraper.query(f'ALERTS{{alertname=~"{UNWANTED}"}}')

    for expression, sample in samples.items():
        print(f"{expression} | {sample}")  # noqa: T201 - the table, for pytest -s
    assert [each for each, sample in samples.items() if sample is None] == []
    assert {(rule["health"], rule.get("lastError")) for rule in rules} == {("ok", None)}
    assert len(rules) == sum(
        len(each.rules) for each in (*RECORDING_GROUPS, *ALERT_GROUPS)
    )
    assert unwanted == []


@pytest.mark.exhaustive
def test_panels_of_sleep_have_data(
    prometheus: Path, rules_folder: Path, tmp_path: Path
) -> None:
    """While an engine falls asleep and wakes up, each panel of it has numbers."""
    expressions = [each for each in panel_expressions() if ASLEEP in each]

    with (
        serving(tmp_path / "server.log", "--enable-sleep-mode") as server,
        scraping(prometheus, tmp_path, rules_folder, server.port) as scraper,
        repeating(server.sleep_and_wake),
    ):
        samples = wait_for_samples(scraper, expressions)

    assert [each for each, sample in samples.items() if sample is None] == []
    assert len(expressions) > 3


@pytest.mark.exhaustive
def test_panels_of_experts_have_data(
    prometheus: Path, rules_folder: Path, tmp_path: Path
) -> None:
    """While two ranks compute their own experts, the panels have numbers."""
    expressions = [each for each in panel_expressions() if EXPERTS in each]
    make_oracle("qwen3-moe", tmp_path / "model")
    options = (str(tmp_path / "model"), "--served-model-name=demo", "-tp=2", "-ep")

    with (
        serving(tmp_path / "server.log", *options) as server,
        scraping(prometheus, tmp_path, rules_folder, server.port) as scraper,
        repeating(lambda number: server.complete(_long(number))),
    ):
        samples = wait_for_samples(scraper, expressions)

    assert [each for each, sample in samples.items() if sample is None] == []
    assert len(expressions) == 2


@pytest.mark.exhaustive
def test_panels_of_other_machines_have_data(
    prometheus: Path, rules_folder: Path, tmp_path: Path
) -> None:
    """While an engine of a headless node serves, the panels of it have numbers."""
    expressions = [
        each for each in panel_expressions() if any(name in each for name in ELSEWHERE)
    ]
    options = (
        *("--executor=simulated", "--data-parallel-size=2", "--num-kv-blocks=512"),
        *("--data-parallel-size-local=1", "--data-parallel-address=127.0.0.1"),
        f"--data-parallel-rpc-port={free_port()}",
    )

    with (
        headless(*options, "--data-parallel-start-rank=1"),
        serving(tmp_path / "server.log", *options) as server,
        scraping(prometheus, tmp_path, rules_folder, server.port) as scraper,
    ):
        samples = wait_for_samples(scraper, expressions)

    assert [each for each, sample in samples.items() if sample is None] == []
    assert len(expressions) == 4


@pytest.mark.exhaustive
def test_the_panel_of_loggers_that_are_left_out_has_data(
    prometheus: Path,
    rules_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A logger that ends the observer process again and again is told there."""
    expressions = [each for each in panel_expressions() if LEFT_OUT in each]
    (tmp_path / "ending.py").write_text(ENDING)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    monkeypatch.setenv("PYTHONPATH", path)
    options = (
        *("--executor=simulated", "--observer-process"),
        "--stat-logger=ending:Ending",
    )

    with (
        serving(tmp_path / "server.log", *options) as server,
        scraping(prometheus, tmp_path, rules_folder, server.port) as scraper,
        repeating(lambda _: server.complete({"prompt": "x", "max_tokens": 1})),
    ):
        samples = wait_for_samples(scraper, expressions)

    assert [each for each, sample in samples.items() if sample is None] == []
    assert len(expressions) == 1


@pytest.mark.exhaustive
def test_dead_engine_raises_an_alert(
    prometheus: Path, rules_folder: Path, tmp_path: Path
) -> None:
    """When the engine's process is killed, HooklineEngineDown is pending soon."""
    alert = 'ALERTS{alertname="HooklineEngineDown"}'

    with (
        serving(tmp_path / "server.log", "--executor=simulated") as server,
        scraping(prometheus, tmp_path, rules_folder, server.port) as scraper,
    ):
        wait_for_samples(scraper, ["hookline_engine_up"])
        before = scraper.query(alert)
        os.kill(server.engine_pid(), signal.SIGKILL)
        samples = wait_for_samples(scraper, [alert])

    assert before == []
    assert samples[alert] == "1 (1 series)"
