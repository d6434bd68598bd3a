"""`hookline trace`: draws recordings for the viewers of Perfetto and Chrome."""

from pathlib import Path

from hookline_insight.sources import paths_of
from hookline_insight.trace.chrome import ChromeCanvas
from hookline_insight.trace.drawing import draw
from hookline_insight.trace.perfetto import PerfettoCanvas
from hookline_insight.wording import safe
from hookline_processes.private_files import open_private
from hookline_recording import RecordingError
from hookline_recording.record_command import save_there
from hookline_server.cli.asking import add_api_key, url_of
from hookline_server.cli.errors import CommandFailedError
from hookline_server.cli.options.command_parser import CommandParser
from hookline_server.cli.output import say


def run(argv: list[str]) -> int:
    """Writes the trace, and says where it is."""
    parser = CommandParser(
        prog="hookline trace",
        description="Draws what engines did: steps, requests, queues and transfers. "
        "https://ui.perfetto.dev shows it.",
    )
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a process of this machine, a recording with the files that continue it, "
        "or the URL or HOST:PORT of a server of this machine; by default all rings of "
        "this user",
    )
    formats = parser.add_mutually_exclusive_group(required=True)
    formats.add_argument("--perfetto", metavar="OUT", help="write Perfetto's format")
    formats.add_argument(
        "--json",
        metavar="OUT",
        help="write JSON, which Chrome shows, too; of long recordings it is too large",
    )
    add_api_key(parser, "admin")
    given = parser.parse_args(argv)
    is_json = given.json is not None
    output = Path(given.json if is_json else given.perfetto)
    url = url_of(given.source)
    paths = paths_of(given.source) if url is None else _saved(url, given.api_key)
    unfinished = output.with_name(f"{output.name}.unfinished")
    try:
        with open_private(unfinished) as file:
            make = ChromeCanvas if is_json else PerfettoCanvas
            steps = draw(paths, file, make)
        unfinished.replace(output)
    except RecordingError as error:
        unfinished.unlink(missing_ok=True)
        raise CommandFailedError(str(error)) from error
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = f"{error.filename or output}: {error.strerror or error}"
        raise CommandFailedError(reason) from error
    say(f"{output}: {steps} steps, {output.stat().st_size / 1e6:.1f} MB")
    return 0


def _saved(url: str, key: str | None) -> list[Path]:
    """Has a server of this machine save its rings."""
    found = [Path(each) for each in save_there(url, key)]
    missing = next((path for path in found if not path.exists()), None)
    if missing is not None:
        raise CommandFailedError(
            f"{url} has saved {safe(str(missing))} on its own machine: draw it there, "
            "or fetch the file"
        )
    return found
