"""Where keys of the command line and of the environment go."""

import json
import os

import pytest

from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.option import Option
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.secrets import options_from_environment, revealed


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, []),
        ({"HOOKLINE_API_KEY": "a"}, ["--api-key=a"]),
        ({"VLLM_API_KEY": "b"}, ["--api-key=b"]),
        ({"VLLM_API_KEY": "b", "HOOKLINE_API_KEY": "a"}, ["--api-key=a"]),
        ({"HOOKLINE_API_KEY": ""}, []),
        ({"HOOKLINE_API_KEY": "-a=b c"}, ["--api-key=-a=b c"]),
    ],
)
def test_variables_become_options_and_disappear(
    environment: dict[str, str], options: list[str]
) -> None:
    """
    What this process starts later inherits none of them.
    """
    found = {"PATH": "/bin", **environment}

    assert options_from_environment(("api-key", "metrics-token"), found) == options
    assert found == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("shown", "secrets", "expected"),
    [
        (["serve", "--api-key", "(hidden)"], ["k"], ["serve", "--api-key", "k"]),
        (["serve", "--api-key=(hidden)"], ["k=l"], ["serve", "--api-key=k=l"]),
        (
            ["serve", "--metrics_token=(hidden)", "--port=1", "--api-key", "(hidden)"],
            ["t", "--k"],
            ["serve", "--metrics_token=t", "--port=1", "--api-key", "--k"],
        ),
    ],
)
def test_hidden_keys_come_back_through_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
    shown: list[str],
    secrets: list[str],
    expected: list[str],
) -> None:
    """
    The process that was started anew has the arguments that were typed.
    """
    reading, writing = os.pipe()
    os.write(writing, json.dumps(secrets).encode())
    os.close(writing)
    monkeypatch.setenv("HOOKLINE_SECRETS_PIPE", str(reading))

    assert revealed(shown) == expected
    assert "HOOKLINE_SECRETS_PIPE" not in os.environ


def test_arguments_without_keys_change_nothing() -> None:
    """
    Without a key the process is not started anew.
    """
    argv = ["serve", "--api-keys", "file", "--port=1", "--api-key"]

    assert revealed(argv) == argv


def test_keys_that_do_not_fit_are_refused() -> None:
    """
    A pipe takes only so much before somebody reads it.
    """
    with pytest.raises(UsageError, match="use a file"):
        revealed(["serve", "--api-key", "k" * 100_000])


@pytest.mark.parametrize("argv", [["--api-kye", "s3cret"], ["--api-kye=s3cret"]])
def test_misspelt_options_do_not_show_their_values(argv: list[str]) -> None:
    """
    The error has the option's right name, and not the key.
    """
    option = Option(flag="api-key", target="t", group="g", help="h")

    with pytest.raises(UsageError) as caught:
        parse(make_parser("serve", "", [option]), argv)

    assert "--api-kye; did you mean --api-key?" in str(caught.value)
    assert "s3cret" not in str(caught.value)
