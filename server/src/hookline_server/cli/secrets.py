"""Keeps keys out of the list of processes, and of the environment of children."""

import json
import os
import sys
from collections.abc import Iterator, MutableMapping, Sequence

from hookline_server.cli.errors import UsageError

SECRET_OPTIONS = ("--api-key", "--metrics-token", "--instance-key", "--token")
HIDDEN = "(hidden)"
"""What the list of processes shows in place of a secret."""

VARIABLES = {
    "api-key": ("HOOKLINE_API_KEY", "VLLM_API_KEY"),
    "metrics-token": ("HOOKLINE_METRICS_TOKEN",),
    "instance-key": ("HOOKLINE_INSTANCE_KEY",),
}
"""Variables of options, the first one that is set counts."""

MACHINES_VARIABLE = "HOOKLINE_DATA_PARALLEL_SECRET"
"""Variable with the secret that several machines share."""

MOST_BYTES = 16 * 1024
"""Maximum size of all secrets together; less than a pipe holds."""

_PIPE = "HOOKLINE_SECRETS_PIPE"


def revealed(argv: Sequence[str]) -> list[str]:
    """Returns the command's arguments with their secrets.

    If secrets stand among them, the process first starts itself anew without them, and
    passes them on through a pipe. Its id stays the same.

    Raises:
        UsageError: The secrets are too long.
    """
    given = list(argv)
    places = list(_places(given))
    if (pipe := os.environ.pop(_PIPE, None)) is not None:
        return _restored(given, places, int(pipe))
    if any(_value(given, place) != HIDDEN for place in places):
        _restart(given, places)
    return given


def options_from_environment(
    names: Sequence[str], environment: MutableMapping[str, str]
) -> list[str]:
    """Returns options of which a variable is set, and removes their variables.

    Children of this process, such as the engine, then do not inherit them.
    """
    found: list[str] = []
    for name in names:
        values = [environment.pop(each, "") for each in VARIABLES[name]]
        found += [f"--{name}={value}" for value in values if value][:1]
    return found


def secret_file_from_environment(environment: MutableMapping[str, str]) -> list[str]:
    """Returns the option that names a file with the machines' secret, if one is set.

    The file is in memory, only this process can open it, and its variable is removed:
    the secret is neither among the options nor inherited by children.
    """
    secret = environment.pop(MACHINES_VARIABLE, "").encode()
    if not secret:
        return []
    if len(secret) > MOST_BYTES:
        raise UsageError(f"{MACHINES_VARIABLE} has more than {MOST_BYTES} bytes")
    descriptor = os.memfd_create("secret")
    os.write(descriptor, secret)
    return [f"--data-parallel-secret-file=/proc/self/fd/{descriptor}"]


def _places(argv: Sequence[str]) -> Iterator[int]:
    """Yields the index of each argument that holds a secret."""
    for index, argument in enumerate(argv):
        name, equals, _ = argument.partition("=")
        if name.replace("_", "-") in SECRET_OPTIONS:
            if equals:
                yield index
            elif index + 1 < len(argv):
                yield index + 1


def _value(argv: Sequence[str], place: int) -> str:
    name, equals, value = argv[place].partition("=")
    return value if equals and name.startswith("--") else argv[place]


def _replaced(argv: list[str], places: Sequence[int], values: Sequence[str]) -> None:
    for place, value in zip(places, values, strict=True):
        old = _value(argv, place)
        head = argv[place][: len(argv[place]) - len(old)]
        argv[place] = head + value


def _restart(argv: list[str], places: Sequence[int]) -> None:
    secrets = [_value(argv, place) for place in places]
    data = json.dumps(secrets).encode()
    if len(data) > MOST_BYTES:
        raise UsageError(f"keys have more than {MOST_BYTES} bytes; use a file")
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    os.set_inheritable(reading, True)
    before = sys.orig_argv[: len(sys.orig_argv) - len(argv)]
    _replaced(argv, places, [HIDDEN] * len(places))
    environment = {**os.environ, _PIPE: str(reading)}
    os.execve(sys.executable, [*before, *argv], environment)  # noqa: S606


def _restored(argv: list[str], places: Sequence[int], pipe: int) -> list[str]:
    with os.fdopen(pipe, "rb") as reading:
        _replaced(argv, places, json.loads(reading.read()))
    return argv
