"""`hookline metrics`: list, describe, diff."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hookline.plugins.kinds import ENGINE_TELLS
from hookline_metrics import CATALOGUE, DIALECTS, NOT_APPLICABLE
from hookline_registry import installed
from hookline_server.cli import main
from hookline_server.cli.metrics_tools.catalogue import rows
from hookline_testing.table_walk import for_each_row

PAGE = """\
# HELP hookline_a_total Help with "quotes" and {braces}.
# TYPE hookline_a_total counter
hookline_a_total{engine="0",x="a,b=\\"c\\"}"} 1.0
# HELP hookline_b_seconds Seconds.
# TYPE hookline_b_seconds histogram
hookline_b_seconds_bucket{engine="0",le="0.5"} 1.0
hookline_b_seconds_bucket{engine="0",le="1.0"} 2.0 # {trace_id="x"} 0.7
hookline_b_seconds_bucket{engine="0",le="+Inf"} 2.0
hookline_b_seconds_count{engine="0"} 2.0
hookline_b_seconds_sum{engine="0"} 1.5e-3
# TYPE process_open_fds gauge
process_open_fds 12.0
# TYPE hookline_empty gauge
"""

OPENMETRICS = PAGE.replace("# TYPE hookline_a_total", "# TYPE hookline_a") + "# EOF\n"

GROUP = ENGINE_TELLS.group

Shown = Callable[..., tuple[int, str]]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """Runs `hookline metrics …`; returns its status and output."""

    def run(*argv: str) -> tuple[int, str]:
        status = main(["metrics", *argv])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def written(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text, "utf-8")
    return str(file)


def test_every_name_is_listed(shown: Shown) -> None:
    """
    `list --json` has each name of each dialect once.
    """
    status, text = shown("list", "--json")

    names = [(row["dialect"], row["name"]) for row in json.loads(text)]
    expected = {
        (dialect, f"{alias.name}_total" * is_counter or alias.name)
        for metric in CATALOGUE
        for dialect in DIALECTS
        for alias in metric.aliases(dialect)
        for is_counter in [metric.kind_of(alias) == "counter"]
    }
    assert status == 0
    assert set(names) == expected
    assert len(names) == len(expected)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_dialect_can_be_listed(shown: Shown, dialect: str) -> None:
    """
    `list --dialect` has that dialect's names, a line each under the headings, and those
    that do not apply with the reason.
    """
    status, text = shown("list", "--dialect", dialect)

    head, *lines = text.splitlines()
    assert status == 0
    headings = ["name", "dialect", "kind", "stability", "labels", "state"]
    assert head.split() == headings
    assert [line.split()[1] for line in lines] == [dialect] * len(lines)
    reasons = NOT_APPLICABLE.get(dialect, {})
    assert len(lines) == len(rows([dialect])) + len(reasons)
    for name, reason in reasons.items():
        (line,) = [line for line in lines if line.split()[0] == name]
        assert line.endswith(f"  not applicable: {reason}")


def test_list_says_what_a_metric_needs(shown: Shown) -> None:
    """
    A metric of an optional feature is fed with that feature's option.
    """
    _, text = shown("list")

    needs = {row.name: row.feature for row in rows() if row.zero is None}
    states = {line.split()[0]: line.rpartition("  ")[2] for line in text.splitlines()}
    assert {"kv-cache-metrics", None} <= set(needs.values())
    assert states["vllm:model_forward_time_milliseconds"].endswith(", the default")
    assert not states["vllm:kv_block_lifetime_seconds"].endswith("default")
    for name, feature in needs.items():
        state = f"fed with --{feature}" if feature else "fed"
        assert states[name].removesuffix(", the default") == state


def test_list_says_what_an_engine_feeds(shown: Shown) -> None:
    """
    With `--engine` each name is fed, fed on a condition, or absent with the reason.
    """
    _, text = shown("list", "--engine", "gateway")
    _, plain = shown("list", "--engine", "gateway", "--json")

    states = {line.split()[0]: line.rpartition("  ")[2] for line in text.splitlines()}
    assert states["hookline_requests_finished_total"] == "fed"
    assert states["vllm:num_requests_running"].startswith("fed if the upstream's page")
    assert states["hookline_step_seconds"].startswith("absent: a gateway sees")
    rows = {row["name"]: row["engine"] for row in json.loads(plain)}
    assert rows["hookline_step_seconds"]["absent"]
    assert rows["hookline_requests_finished_total"] == {
        "absent": None,
        "condition": None,
    }


@pytest.mark.parametrize("engine", [each.name for each in installed(GROUP)])
def test_every_engine_says_why_a_metric_is_absent(shown: Shown, engine: str) -> None:
    """
    Whatever engine declares itself, each name's state is told, and a reason is one.
    """
    status, text = shown("list", "--engine", engine, "--dialect", "hookline")

    states = [line.rpartition("  ")[2] for line in text.splitlines()[1:]]
    assert status == 0
    assert all(each.startswith(("fed", "absent: ", "zero")) for each in states)
    assert "absent: " not in states


def test_an_unknown_engine_is_told(shown: Shown) -> None:
    """
    The message names those that there are.
    """
    status, text = shown("list", "--engine", "gatewey")

    assert (status, "did you mean gateway" in text) == (2, True)


def test_list_shortens_many_labels(shown: Shown) -> None:
    """
    A metric with many labels does not move the state of all others out of sight.
    """
    _, text = shown("list", "--dialect", "vllm")
    [line] = [each for each in text.splitlines() if "cache_config_info" in each]

    _, described = shown("describe", "vllm:cache_config_info")

    assert line.index("fed") < 150
    assert "..." in line
    assert "..." not in described


def test_list_says_what_is_zero_by_nature(shown: Shown) -> None:
    """
    A metric that nothing feeds says why it is always 0, and how that deviates.
    """
    _, text = shown("list")
    [line] = [each for each in text.splitlines() if "num_requests_swapped" in each]

    _, described = shown("describe", "vllm:num_requests_swapped")

    assert line.endswith(
        "zero by nature: preempted requests are recomputed, never swapped out"
    )
    assert "deviates  version 0 counts requests" in described


def test_names_that_do_not_apply_are_explained(shown: Shown) -> None:
    """
    `describe` says why another engine's name is absent.
    """
    status, text = shown("describe", "vllm:mm_cache_hits_total")

    assert status == 0
    assert text == (
        "vllm:mm_cache_hits_total\n  not applicable: there is no multimodal input\n"
    )


@pytest.mark.slow
@for_each_row("name", sorted({row.name for row in rows()}))
def test_every_metric_can_be_described(shown: Shown, name: str) -> None:
    """
    `describe` accepts every name of each dialect; shows kind, labels and version.
    """
    status, text = shown("describe", name)

    assert status == 0
    assert text.startswith(f"{name}\n")
    assert all(word in text for word in ("kind", "labels", "stability", "since"))


def test_counters_are_known_without_their_suffix(shown: Shown) -> None:
    """
    A name without `_total` is found too, and the description names its relatives.
    """
    status, text = shown("describe", "vllm:request_success")

    assert status == 0
    assert text.startswith("vllm:request_success_total\n")
    assert "also      hookline_requests_finished_total" in text


def test_histograms_list_their_buckets(shown: Shown) -> None:
    """
    Bounds are shown with the family whose option replaces them.
    """
    _, fixed = shown("describe", "hookline_time_to_first_token_seconds")
    _, open_ended = shown("describe", "hookline_request_prompt_tokens")

    assert "0.0005 0.001 0.002" in fixed
    assert "(time_to_first_token)" in fixed
    assert "up to the model's context length (request_tokens)" in open_ended


def test_metrics_of_an_option_name_it(shown: Shown) -> None:
    """
    A metric that is not always there names the option that brings it.
    """
    _, text = shown("describe", "hookline_kv_block_lifetime_seconds")

    assert "needs     --kv-cache-metrics" in text


def test_unknown_name_suggests_close_ones(shown: Shown) -> None:
    """
    A name that does not exist ends with status 2 and a suggestion.
    """
    status, text = shown("describe", "hookline_request_running")

    assert status == 2
    assert "did you mean hookline_requests_running" in text


def test_equal_pages_have_no_differences(shown: Shown, tmp_path: Path) -> None:
    """
    What `list --json` wrote is what is installed.
    """
    _, listing = shown("list", "--json")
    file = written(tmp_path, "list.json", listing)

    assert shown("diff", file, "installed") == (0, "no difference\n")


def test_text_formats_are_read_alike(shown: Shown, tmp_path: Path) -> None:
    """
    A page is the same in the text format and in OpenMetrics.
    """
    text = written(tmp_path, "text", PAGE)
    openmetrics = written(tmp_path, "openmetrics", OPENMETRICS)

    assert shown("diff", text, openmetrics) == (0, "no difference\n")


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (("# TYPE process_open_fds gauge\nprocess_open_fds 12.0\n", ""), 1, "removed"),
        (("a_total counter", "a_total gauge"), 1, "counter is gauge"),
        (('{engine="0",x=', '{engine="0",y='), 1, "without label x; with label y"),
        (('le="1.0"', 'le="2.0"'), 1, "buckets 0.5 1 are 0.5 2"),
        (("# TYPE hookline_e", "# TYPE b gauge\nb 1\n# TYPE hookline_e"), 0, "added"),
        (("empty gauge\n", 'empty gauge\nhookline_empty{x=""} 1\n'), 0, "no differ"),
        (("1.5e-3", "99"), 0, "no difference"),
    ],
    ids=["removed", "kind", "labels", "buckets", "added", "no longer empty", "value"],
)
def test_differences_are_listed(
    shown: Shown, tmp_path: Path, change: tuple[str, str], status: int, message: str
) -> None:
    """
    What is missing or changed ends with status 1; what is new, or a number, does not.
    """
    assert change[0] in PAGE
    first = written(tmp_path, "first", PAGE)
    second = written(tmp_path, "second", PAGE.replace(*change))

    ended, text = shown("diff", first, second)

    assert ended == status
    assert message in text


def test_diff_can_keep_to_a_dialect(shown: Shown, tmp_path: Path) -> None:
    """
    With `--dialect` other names are left out on both sides.
    """
    first = written(tmp_path, "first", PAGE)
    second = written(tmp_path, "second", PAGE.replace("process_open", "process_shut"))

    assert shown("diff", first, second)[0] == 1
    assert shown("diff", first, second, "--dialect=hookline")[0] == 0


def test_page_of_a_server_is_read(shown: Shown, tmp_path: Path) -> None:
    """
    A URL is fetched, with the token where one is given.
    """
    file = written(tmp_path, "page", PAGE)
    with serving(PAGE, token="s" * 9) as url:
        refused = shown("diff", file, url)
        read = shown("diff", file, url, f"--token={'s' * 9}")

    assert refused[0] == 2
    assert "answers 401" in refused[1]
    assert read == (0, "no difference\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("<html>", "is not a line of metrics"),
        ("", "holds no metrics"),
        ("# TYPE a gauge\na x\n", "'x' is not a number"),
        ('# TYPE a histogram\na_bucket{le="x"} 1\n', "bound 'x'"),
        ("[1]", "is not what `hookline metrics list --json` writes"),
    ],
)
def test_source_without_metrics_is_one_line(
    shown: Shown, tmp_path: Path, content: str, complaint: str
) -> None:
    """
    A source that is none ends with status 2 and one line, never with a difference.
    """
    status, text = shown("diff", written(tmp_path, "file", content), "installed")

    assert (status, text.count("\n")) == (2, 1)
    assert complaint in text


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["nope"], "unknown command 'nope' of metrics"),
        (["list", "--dialect=tgi"], "invalid choice: 'tgi'"),
        (["describe"], "NAME"),
        (["diff", "installed"], "required: B"),
        (["diff", "/nonexistent", "installed"], "cannot read /nonexistent"),
        (["diff", "http://127.0.0.1:1/metrics", "installed"], "cannot read http://"),
        (["diff", "http://[", "installed"], "'http://[' is not a URL"),
    ],
)
def test_wrong_input_is_one_line(shown: Shown, argv: list[str], complaint: str) -> None:
    """
    Wrong input ends with status 2 and one line.
    """
    status, text = shown(*argv)

    assert (status, text.count("\n")) == (2, 1)
    assert complaint in text


@pytest.mark.parametrize("argv", [[], ["--help"]])
def test_help_is_shown(shown: Shown, argv: list[str]) -> None:
    """
    The command alone lists its subcommands.
    """
    status, text = shown(*argv)

    assert status == 0
    assert all(name in text for name in ("list", "describe", "diff"))


@contextmanager
def serving(page: str, *, token: str) -> Iterator[str]:
    """A server with one page, for those who have the token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers.get("Authorization") == f"Bearer {token}"
            self.send_response(200 if is_known else 401)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()
