"""`hookline top`: the live view of a server in a terminal."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException, HTTPResponse

import msgspec

from hookline_live.frame import Frame
from hookline_live.screen import painted
from hookline_live.totals import Totals
from hookline_server.cli.asking import add_api_key, open_page, url_of
from hookline_server.cli.errors import CommandFailedError, UsageError
from hookline_server.cli.options.command_parser import CommandParser

_TIMEOUT_SECONDS = 30.0
_AGAIN_SECONDS = 2.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
decoded = msgspec.json.Decoder(Frame).decode


def run(argv: list[str]) -> int:
    """Shows frames until the reader has enough."""
    parser = CommandParser(
        prog="hookline top",
        description="Shows what the engines of a server do, which runs with "
        "--stat-logger live. Ctrl-C ends it.",
    )
    parser.add_argument(
        "url",
        nargs="?",
        metavar="SERVER",
        default="http://127.0.0.1:8000",
        help="its URL or HOST:PORT (default: %(default)s)",
    )
    add_api_key(parser, "metrics")
    parser.add_argument(
        "--once", action="store_true", help="print the last minute once, and end"
    )
    arguments = parser.parse_args(argv)
    url = url_of(arguments.url)
    if url is None:
        raise UsageError(f"{arguments.url} is neither a URL nor HOST:PORT")
    source = Source(url.rstrip("/"), arguments.api_key)
    if arguments.once or not sys.stdout.isatty():
        totals = Totals()
        totals.add(source.window())
        size = shutil.get_terminal_size((100, 40))
        sys.stdout.write(painted(totals, size.columns, 200, colours=False) + "\n")
        return 0
    sys.stdout.write(_ENTER)
    try:
        with suppress(KeyboardInterrupt):
            _watch(source)
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
    return 0


class Source:
    """The frames of a server."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url, self._key = url, key

    def window(self) -> Frame:
        """Returns the last minute.

        Raises:
            CommandFailedError: The server does not tell it.
        """
        with self._open("/live/moment") as answer:
            try:
                return decoded(answer.read())
            except (msgspec.DecodeError, OSError, HTTPException) as error:
                raise CommandFailedError(f"{self._url}: {error}") from error

    def frames(self) -> Iterator[Frame | int]:
        """Yields frames, and before one the number of those that were left out.

        Raises:
            OSError: The connection has ended.
            HTTPException: Likewise.
        """
        is_lost = False
        with self._open("/live/frames") as answer:
            while line := answer.readline():
                if line == b"event: lost\n":
                    is_lost = True
                elif line.startswith(b"data: "):
                    yield int(line[6:]) if is_lost else decoded(line[6:])
                    is_lost = False

    def _open(self, path: str) -> HTTPResponse:
        return open_page(
            self._url,
            path,
            key=self._key,
            scope="metrics",
            logger="live",
            timeout_seconds=_TIMEOUT_SECONDS,
        )


def _watch(source: Source) -> None:
    """Shows frames, also of a server that starts again meanwhile."""
    totals = Totals()
    totals.add(source.window())
    while True:
        with suppress(OSError, HTTPException, CommandFailedError):
            for frame in source.frames():
                if isinstance(frame, int):
                    totals.lost += frame
                    totals.clear()
                    totals.add(source.window())
                    continue
                totals.add(frame)
                width, height = shutil.get_terminal_size()
                sys.stdout.write("\x1b[H" + painted(totals, width, height) + "\x1b[J")
                sys.stdout.flush()
        time.sleep(_AGAIN_SECONDS)
        totals.clear()
        with suppress(CommandFailedError):
            totals.add(source.window())
