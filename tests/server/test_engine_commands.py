"""Engines that are commands of their own."""

import pytest

from hookline_server.cli.engine_commands import with_engine

URL = "http://host:1"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("serve", ["--engine", "remote", URL], ("gateway", [URL])),
        ("serve", [URL, "--engine=remote", "--port=1"], ("gateway", [URL, "--port=1"])),
        ("serve", ["--engine=native", "m"], ("serve", ["--engine=native", "m"])),
        ("serve", ["--engine", "none", "m"], ("serve", ["--engine", "none", "m"])),
        ("serve", ["m", "--engine"], ("serve", ["m", "--engine"])),
        ("generate", ["--engine=remote"], ("generate", ["--engine=remote"])),
    ],
)
def test_serve_with_an_engine_that_is_a_command(
    name: str, arguments: list[str], expected: tuple[str, list[str]]
) -> None:
    """It is that command, without the engine; what is unknown stays as it is."""
    assert with_engine(name, arguments) == expected
