"""What a command reads: a file, a process's rings, all of them, or a server's pages."""

import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

from hookline_insight.explainer import Explainer
from hookline_insight.wording import safe_text
from hookline_recording import Recording, RecordingError, folder, read_recording
from hookline_recording.reading import RING
from hookline_server.cli.asking import open_page
from hookline_server.cli.errors import CommandFailedError


def paths_of(source: str | None) -> list[Path]:
    """Returns the recordings that a source names.

    Args:
        source: A file, the id of a process, or None for all rings of this user.

    Raises:
        CommandFailedError: There is none.
    """
    found = folder.named(source)
    if not found and source is None:
        found = saved_paths()
    if not found:
        whose = "this user" if source is None else f"the process {source}"
        raise CommandFailedError(
            f"no ring of {whose} is on this machine; engines have one with "
            "--flight-recorder-bytes above 0"
        )
    return found


def ask_page(url: str, path: str, key: str | None) -> str:
    """Returns a page of a server's stat logger `insight`, for a terminal.

    Raises:
        CommandFailedError: The server does not answer, or has nothing to tell.
    """
    try:
        with open_page(url, path, key=key, scope="admin", logger="insight") as reply:
            text = reply.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise CommandFailedError(f"{url}: {error}") from error
    return safe_text(text.rstrip())


def saved_paths() -> list[Path]:
    """Returns what was saved of the rings of this user, newest first."""
    return sorted(folder.rings_folder().glob(f"*{folder.SAVED}"), reverse=True)


def is_live(path: Path) -> bool:
    """Whether the engine that writes a recording lives."""
    return path.suffix == RING and folder.is_live(path)


def read(path: Path, newest: int | None = None) -> Recording:
    """Reads a recording, or its newest records.

    Raises:
        CommandFailedError: It cannot be read.
    """
    try:
        return read_recording(path, newest)
    except RecordingError as error:
        raise CommandFailedError(str(error)) from error
    except OSError as error:
        reason = error.strerror or error
        raise CommandFailedError(f"cannot read {path}: {reason}") from error


def explainers(paths: list[Path], newest: int | None = None) -> Iterator[Explainer]:
    """Reads recordings; those of engines that live go on until now.

    Args:
        paths: Their files.
        newest: How many of the newest records of each are read; None for all.

    Raises:
        CommandFailedError: One cannot be read.
    """
    for path in paths:
        live, recording = is_live(path), read(path, newest)
        yield Explainer(recording, time.monotonic_ns() if live else None)
