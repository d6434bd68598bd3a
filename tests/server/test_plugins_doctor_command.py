"""`hookline plugins doctor`: plugins that are wrong, and lanes that were hurt."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from hookline.pages import PageResponse
from hookline_metrics import CATALOGUE
from hookline_server.app import create_app
from hookline_server.cli import main
from hookline_server.cli.errors import UsageError
from hookline_server.cli.metrics_tools.lanes import PREFIX, lane_reports
from hookline_server.cli.metrics_tools.page import read_page
from hookline_server.settings import ServerSettings
from hookline_testing.essential import essential
from hookline_testing.plugin_site import PluginSite
from hookline_testing.scripted_server import FakeEngine

PLAIN = "from hookline import hookimpl\n@hookimpl\n"
URLS = ["localhost:8000", "file:///etc/hosts", "ftp://a"]
CLASS = """\
from hookline import hookimpl

class Logger:
    @hookimpl
    def {hook}(self, {argument}):
        pass

@hookimpl
def create_stat_logger(context) -> Logger | None:
    return Logger()
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    with PluginSite(tmp_path) as installed:
        yield installed


def lanes(**values: float) -> str:
    """A page of metrics with one lane, whose counts are 0 but for these."""
    names = {
        "lane_depth": "gauge",
        "breaker_open": "gauge",
        "delivered_batches_total": "counter",
        "dropped_batches_total": "counter",
        "errors_total": "counter",
        "busy_seconds_total": "counter",
    }
    return "".join(
        f"# TYPE {PREFIX}{name} {kind}\n"
        f'{PREFIX}{name}{{logger="a"}} {values.get(name, 0)}\n'
        for name, kind in names.items()
    )


def test_installed_plugins_are_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Hookline's own plugins have no problem.
    """
    assert main(["plugins", "doctor"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()

    assert head.split() == ["kind", "name", "distribution", "hooks", "verdict"]
    assert all(line.endswith(" ok") for line in lines)


PROBLEMS = [
    ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
    (f"{PLAIN}def engine_starts(started): ...", "did you mean 'engine_started'"),
    (f"{PLAIN}def engine_started(event): ...", "event"),
    (f"{PLAIN}async def engine_started(started): ...", "coroutine"),
    ("x = 1", "it implements no hook"),
    (CLASS.format(hook="step_ended", argument="step"), "no hook 'step_ended'"),
    (CLASS.format(hook="step_finished", argument="record"), "record"),
]


@pytest.mark.parametrize(
    ("source", "problem"),
    essential(PROBLEMS, PROBLEMS[0], PROBLEMS[1], PROBLEMS[6], slow=PROBLEMS),
    ids=[
        "import",
        "unknown hook",
        "wrong argument",
        "coroutine",
        "no hooks",
        "unknown hook of the logger",
        "wrong argument of the logger",
    ],
)
def test_problems_are_reported(
    site: PluginSite, capsys: pytest.CaptureFixture[str], source: str, problem: str
) -> None:
    """
    A broken plugin is listed with its distribution and the reason.
    """
    site.install("sick", source)

    status = main(["plugins", "doctor"])

    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if " sick " in line
    ]
    assert status == 1
    assert "dist-sick 1.0" in line
    assert problem in line


def test_valid_logger_is_healthy(
    site: PluginSite, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A logger whose class fits the specifications is well.
    """
    site.install("fit", CLASS.format(hook="step_finished", argument="step"))

    assert main(["plugins", "doctor"]) == 0
    assert "fit" in capsys.readouterr().out


def test_duplicate_names_are_reported(
    site: PluginSite, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Two distributions with one name are both listed.
    """
    site.install("logging", f"{PLAIN}def engine_started(started): ...")

    status = main(["plugins", "doctor"])

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert sum("is claimed by" in line for line in lines) == 2


def test_lanes_are_read_by_the_catalogues_names() -> None:
    """
    What the doctor reads is what the catalogue exposes.
    """
    exposed = {metric.exposed(metric.name) for metric in CATALOGUE}
    page = read_page(lanes(), "page")

    assert {sample.name for sample in page.samples} <= exposed


@pytest.mark.parametrize(
    ("values", "problems"),
    [
        ({"lane_depth": 3, "delivered_batches_total": 5}, ()),
        ({"dropped_batches_total": 2}, ("2 batches dropped",)),
        ({"errors_total": 1, "breaker_open": 1}, ("breaker open", "1 errors")),
    ],
)
def test_lanes_show_their_failures(
    values: dict[str, float], problems: tuple[str, ...]
) -> None:
    """
    Drops, errors and an open breaker are problems; depth is none.
    """
    (lane,) = lane_reports(read_page(lanes(**values), "page"))

    assert lane.problems == problems
    assert lane.depth == values.get("lane_depth", 0)


@pytest.mark.parametrize(("dropped", "status"), [(0, 0), (1, 1)])
@pytest.mark.parametrize(
    "path", essential(["", "/", "/metrics"], "/metrics", slow=["", "/"])
)
async def test_running_server_is_checked(
    capsys: pytest.CaptureFixture[str], dropped: int, status: int, path: str
) -> None:
    """
    With a URL the lanes of a running server decide too.
    """
    engine = FakeEngine()
    body = lanes(dropped_batches_total=dropped).encode()
    engine.pages["/metrics"] = lambda _: PageResponse(body=body, content_type="a/b")
    token = "t" * 20
    app = create_app(engine, ServerSettings(metrics_token=token))

    async with TestServer(app) as server:
        url = str(server.make_url("/")).rstrip("/") + path
        argv = ["plugins", "doctor", f"--url={url}", f"--token={token}"]
        ended = await asyncio.to_thread(main, argv)

    assert ended == status
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["a", "0"]


@pytest.mark.parametrize("url", essential(URLS, URLS[0], slow=URLS))
def test_url_must_be_one(capsys: pytest.CaptureFixture[str], url: str) -> None:
    """
    What is no address of the web is refused.
    """
    assert main(["plugins", "doctor", "--url", url]) == 2
    assert "is not a URL such as http://HOST:PORT" in capsys.readouterr().err


def test_page_without_lanes_is_reported() -> None:
    """
    A page without lanes is an error.
    """
    with pytest.raises(UsageError, match="must expose the dialect hookline"):
        lane_reports(read_page("# TYPE a gauge\na 1\n", "page"))
