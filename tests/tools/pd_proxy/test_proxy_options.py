"""The options of a route."""

import pytest

from hookline.exceptions import ConfigError
from hookline_pd_proxy.options import ROUTE_OPTIONS
from hookline_pd_proxy.settings import RouteSettings
from hookline_server.cli import main


@pytest.mark.parametrize(
    ("values", "option"),
    [
        ({"decode": []}, "decode"),
        ({"decode": ["host:1"]}, "decode"),
        ({"decode": ["http://"]}, "decode"),
        ({"decode": ["http://a:x"]}, "decode"),
        ({"decode": ["ftp://a:1"]}, "decode"),
        ({"decode": ["http://u:p@a:1"]}, "decode"),
        ({"decode": ["http://a:1?x=1"]}, "decode"),
        ({"decode": ["http://a:1", "http://a:1"]}, "decode"),
        ({"prefill": ["a"]}, "prefill"),
        ({"port": 65536}, "port"),
        ({"connect_timeout": 0.0}, "connect-timeout"),
        ({"prefill_timeout": -1.0}, "prefill-timeout"),
        ({"request_timeout": float("inf")}, "request-timeout"),
        ({"poll_seconds": 0.0}, "poll-seconds"),
        ({"shutdown_timeout": -1.0}, "shutdown-timeout"),
        ({"retries": -1}, "retries"),
        ({"prefill_min_characters": -1}, "prefill-min-characters"),
        ({"max_body_bytes": 0}, "max-body-bytes"),
        ({"trace_ratio": 1.5}, "trace-ratio"),
        ({"log_level": "loud"}, "log-level"),
    ],
    ids=str,
)
def test_invalid_settings(values: dict[str, object], option: str) -> None:
    """The error names the option as it is typed."""
    everything = {"decode": ["http://a:1"], **values}

    with pytest.raises(ConfigError) as caught:
        RouteSettings(**everything)  # type: ignore[arg-type]

    assert caught.value.option == option
    assert option in {each.flag for each in ROUTE_OPTIONS}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "decode: must name at least one instance"),
        ("--decode a", "'a' is not a URL"),
        ("--decode http://a:1 --decode http://a:1/", "twice"),
        ("--decode http://a:1 --modle demo", "unrecognized arguments: --modle"),
        ("--decode http://a:1 --connector p2p", "--connector requires --demo"),
        ("--demo --decode http://a:1", "--demo cannot be combined"),
        ("--demo --prefill http://a:1", "--demo cannot be combined"),
        ("--demo --retries -1", "retries: must be at least 0"),
        ("--demo --port 65534", "port"),
    ],
)
def test_invalid_commands(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, and the status of wrong input."""
    assert main(["route", *line.split()]) == 2
    assert words in capsys.readouterr().err
