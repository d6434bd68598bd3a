"""`hookline record save`: saves the rings of a server, a process or a file."""

import argparse
import json
from pathlib import Path

from hookline_recording.config import RecordingConfig
from hookline_recording.folder import named, save, save_in_folder
from hookline_recording.reading import read_recording
from hookline_recording.watch import PATH
from hookline_server.cli.asking import add_api_key, open_page, url_of
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Saves, and prints each file."""
    parser = argparse.ArgumentParser(
        prog="hookline record", description="Saves what engines did last."
    )
    actions = parser.add_subparsers(required=True)
    action = actions.add_parser("save", help="save it to a file")
    action.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a server's URL or HOST:PORT, a process of this machine, "
        "which may hang, or a ring; by default all rings of this user",
    )
    action.add_argument("--output", metavar="FILE", help="where to save a ring")
    add_api_key(action, "admin")
    arguments = parser.parse_args(argv)
    source = arguments.source
    if (url := url_of(source)) is not None:
        if arguments.output is not None:
            raise UsageError(
                f"{url} saves beside its rings, on its own machine: leave --output out"
            )
        for saved in save_there(url, arguments.api_key):
            say(f"the server saved {saved}")
        return 0
    for ring in _rings(source):
        path = _save(ring, arguments.output)
        recording = read_recording(path)
        say(
            f"{path}: engine {recording.header.engine_index} of "
            f"{recording.header.model}, {len(recording.steps)} steps, "
            f"{recording.lost} damaged records"
        )
    return 0


def _rings(source: str | None) -> list[Path]:
    found = named(source)
    if not found:
        whose = "this user" if source is None else f"the process {source}"
        raise CommandFailedError(f"no ring of {whose} is on this machine")
    return found


def _save(ring: Path, output: str | None) -> Path:
    try:
        read_recording(ring)
        if output is None:
            return save_in_folder(ring, "asked", RecordingConfig().flight_recorder_keep)
        save(ring, Path(output))
    except (OSError, ValueError) as error:
        raise CommandFailedError(str(error)) from error
    return Path(output)


def save_there(url: str, key: str | None) -> list[str]:
    """Has a server save its rings; returns the paths on its machine.

    Raises:
        CommandFailedError: It does not.
    """
    try:
        with open_page(
            url, PATH, key=key, scope="admin", logger="flight_recorder", method="POST"
        ) as reply:
            saved: list[str] = json.load(reply)["recordings"]
    except (OSError, ValueError, KeyError) as error:
        raise CommandFailedError(f"{url}: {error}") from error
    return saved
