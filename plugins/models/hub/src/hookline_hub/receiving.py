"""Receives one file into a part that survives the process, and checks it.

`huggingface_hub` keeps no part of a file beyond a process, and compares no checksums.
Its session, headers, redirects and errors are used here.
"""

import hashlib
import logging
import os
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx2
from huggingface_hub import constants, get_session, hf_raise_for_status
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

from hookline_hub.names import HubName
from hookline_hub.remote import Pause, RemoteFile, patiently

logger = logging.getLogger(__name__)

_CHUNK = 2**18
_CUTS = 5
"""Connections in turn that may end without a byte."""
_LONGEST_PAUSE = 8.0
_SHA256_DIGITS = 64
_OK = 200
_NOT_SATISFIABLE = 416


class WrongContentError(Exception):
    """What the hub sends is not the file that it announced."""


class StoppedError(Exception):
    """Another file could not be received, so that this one is not wanted either."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Receives files of a model at a commit.

    Attributes:
        name: The model.
        commit: The commit.
        endpoint: The hub's URL.
        stop: Ends all that is being received.
        pause: Waits for some seconds.
    """

    name: HubName
    commit: str
    endpoint: str
    stop: threading.Event
    pause: Pause

    def receive(self, file: RemoteFile, part: Path) -> None:
        """Receives what a part of a file lacks; an unusable part is begun again.

        Raises:
            WrongContentError: It has another length or checksum, twice.
            HfHubHTTPError: The hub refuses.
            httpx2.HTTPError: The connection was lost, again and again.
            OSError: The part cannot be written.
        """
        try:
            self._receive(file, part)
        except WrongContentError as error:
            logger.warning("%s: %s: %s; once more", self.name, file.path, error)
            self._receive(file, part)

    def _receive(self, file: RemoteFile, part: Path) -> None:
        try:
            with closing(_Part(part, self.stop)) as target:
                self._fill(file, target)
            _check_digest(part, file)
        except WrongContentError:
            part.unlink(missing_ok=True)
            raise

    def _fill(self, file: RemoteFile, target: "_Part") -> None:
        """Goes on where the connection was cut, as long as bytes arrive."""
        cuts = 0
        while (have := target.size) < file.size:
            try:
                patiently(lambda: self._stream(file, target), self.pause)
            except httpx2.HTTPError as error:
                if isinstance(error, HfHubHTTPError):
                    raise
                cuts = 1 if target.size > have else cuts + 1
                if cuts == _CUTS:
                    raise
                wait = min(2.0 ** (cuts - 1), _LONGEST_PAUSE)
                logger.warning(
                    "%s: %s: cut after %d of %d bytes (%s): going on",
                    self.name,
                    file.path,
                    target.size,
                    file.size,
                    error,
                )
                self.pause(wait)
        if have > file.size:
            raise WrongContentError(f"it has more than the {file.size} bytes announced")

    def _stream(self, file: RemoteFile, target: "_Part") -> None:
        """Receives what one answer has."""
        if self.stop.is_set():
            raise StoppedError
        have = target.size
        path = f"{self.name.repo}/resolve/{self.commit}/{quote(file.path)}"
        # To another host, a redirect is followed without the token.
        headers = build_hf_headers(library_name="hookline")
        headers |= {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with get_session().stream(
            "GET",
            f"{self.endpoint}/{path}",
            headers=headers,
            timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
        ) as response:
            if response.status_code == _NOT_SATISFIABLE:
                raise WrongContentError(f"it ends after {have} of {file.size} bytes")
            hf_raise_for_status(response)
            if response.status_code == _OK:
                target.begin_again()
                have = 0
            for chunk in response.iter_bytes(_CHUNK):
                target.write(chunk)
                if target.size > file.size:
                    return
        if target.size == have:
            raise WrongContentError(f"it ends after {have} of {file.size} bytes")


class _Part:
    """The part of a file that is there already; writing appends to it."""

    def __init__(self, path: Path, stop: threading.Event) -> None:
        self._file = path.open("ab", buffering=0)
        self._stop = stop

    @property
    def size(self) -> int:
        """Its bytes."""
        return os.fstat(self._file.fileno()).st_size

    def write(self, data: bytes) -> None:
        """Writes all of some bytes.

        Raises:
            StoppedError: It is not wanted any more.
        """
        if self._stop.is_set():
            raise StoppedError
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]

    def begin_again(self) -> None:
        """Drops all bytes."""
        self._file.truncate(0)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _check_digest(path: Path, file: RemoteFile) -> None:
    """Compares the checksum of what was received with the hub's.

    Raises:
        WrongContentError: They differ.
    """
    if len(file.digest) == _SHA256_DIGITS:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(usedforsecurity=False)
        digest.update(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != file.digest:
        raise WrongContentError("its checksum differs from the hub's")
