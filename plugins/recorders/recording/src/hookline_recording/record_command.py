"""`hookline record save`: saves the rings of a server, a process or a file."""

import json
from pathlib import Path

from hookline.clock import NANOSECONDS
from hookline_recording.config import MIB
from hookline_recording.folder import named, save, save_in_folder
from hookline_recording.reading import RING, read_recording
from hookline_recording.recording import Recording
from hookline_recording.schema import HEADER_BYTES
from hookline_recording.watch import PATH
from hookline_server.cli.asking import add_api_key, open_page, url_of
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Saves, and prints each file."""
    parser = CommandParser(
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
    rings = _rings(source)
    if arguments.output is not None and len(rings) > 1:
        names = ", ".join(map(str, rings))
        raise CommandFailedError(f"--output takes one ring, not {len(rings)}: {names}")
    for ring in rings:
        path = _save(ring, arguments.output)
        recording = read_recording(path)
        say(
            f"{path}: engine {recording.header.engine_index} of "
            f"{recording.header.model}, {len(recording.steps)} steps, "
            f"{recording.lost} damaged records{_reach(ring, recording)}"
        )
    return 0


def _reach(ring: Path, recording: Recording) -> str:
    """Tells how large steps are, and for how long a ring keeps the like of them."""
    used, records = recording.record_bytes, recording.records
    if ring.suffix != RING or not recording.steps:
        return ""
    seconds = (records[-1].at - records[0].at) / NANOSECONDS
    capacity = ring.stat().st_size - HEADER_BYTES
    return (
        f"; {used / len(recording.steps):.0f} bytes a step: {capacity / MIB:.1f} MiB "
        f"hold {capacity / used * seconds / 60:.0f} minutes of the like"
    )


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
            return save_in_folder(ring, "asked", None)  # the server prunes them
        save(ring, Path(output))
    except OSError as error:
        raise CommandFailedError(
            f"cannot save {ring}: {error.strerror or error}"
        ) from error
    except ValueError as error:
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
