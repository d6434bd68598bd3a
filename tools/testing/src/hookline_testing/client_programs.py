"""Runs the program of a client, and reads what it says of each feature."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from hookline_testing.client_environments import python_of
from hookline_testing.client_server import KEY, NARROW_KEY
from hookline_testing.client_suite import Client

_PROGRAM_SECONDS = 300


class Outcome(NamedTuple):
    """Whether a feature works, and what went wrong."""

    ok: bool
    detail: str


def run_program(
    client: Client, environment: Path, scratch: Path, url: str
) -> dict[str, Outcome]:
    """Returns the outcome of each feature, in the program's order.

    Args:
        client: The client.
        environment: Where it is installed.
        scratch: An empty folder.
        url: The server's address.
    """
    done = subprocess.run(  # noqa: S603 - the command is ours
        [*_command(client, environment, scratch), url],
        check=False,
        capture_output=True,
        text=True,
        timeout=_PROGRAM_SECONDS,
        cwd=scratch,
        # No variables that clients read, such as keys and proxies.
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(scratch),
            "CLIENTS_KEY": KEY,
            "CLIENTS_NARROW_KEY": NARROW_KEY,
        },
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["feature"]: Outcome(each["ok"], each["detail"]) for each in lines}


def _command(client: Client, environment: Path, scratch: Path) -> list[str]:
    if client.program.suffix == ".py":
        return [str(python_of(environment)), str(client.program)]
    # Node looks for packages beside the program.
    (scratch / "node_modules").symlink_to(environment / "node_modules")
    for program in client.program.parent.glob("*.mjs"):
        shutil.copy(program, scratch)
    return ["node", str(scratch / client.program.name)]
