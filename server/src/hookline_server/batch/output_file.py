"""Writes a batch's output to a part file, which is renamed when it is complete."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from hookline_processes.private_files import open_private
from hookline_server.batch.lines import BatchResult
from hookline_server.cli.errors import CommandFailedError, UsageError

_PART = ".part"
_KEPT = ".kept"
_DIGEST_BYTES = 8

_decode_result = msgspec.json.Decoder(BatchResult).decode


class OutputFile:
    """The output file of a batch.

    Attributes:
        part: Path of the file while it is incomplete.
        done: Digests of the requests that an earlier run has answered.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Opens the part.

        Raises:
            UsageError: It cannot be written, or exists and is not to be resumed.
        """
        self.part = path.with_name(path.name + _PART)
        self.done: set[int] = set()
        self._path = path
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder")
        if path.is_symlink() or (path.exists() and not path.is_file()):
            # The part would take its place.
            raise UsageError(f"cannot write {path}: it is a link or a device")
        try:
            if resume:
                self._keep_responses()
            elif self.part.exists():
                raise UsageError(
                    f"{self.part} exists: a run writes it, or was interrupted; go on "
                    "with --resume, or remove it"
                )
            self._file: BinaryIO = open_private(self.part, appends=True)
        except OSError as error:
            raise UsageError(f"cannot write {self.part}: {error.strerror}") from error

    def write(self, line: bytes) -> None:
        """Appends a line.

        Raises:
            CommandFailedError: It cannot be written.
        """
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from error

    def commit(self) -> None:
        """Renames the complete part to the output.

        Raises:
            CommandFailedError: The file system refuses.
        """
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            self.part.replace(self._path)
        except OSError as error:
            raise self._failed(error) from error

    @property
    def has_results(self) -> bool:
        """Whether the part has any line, of this run or an earlier one."""
        return self.part.stat().st_size > 0

    def close(self) -> None:
        """Closes the part, which stays if it was not committed and has results."""
        with suppress(OSError):
            self._file.close()
            if not self.has_results:
                self.part.unlink()

    def _failed(self, error: OSError) -> CommandFailedError:
        return CommandFailedError(f"cannot write {self.part}: {error.strerror}")

    def _keep_responses(self) -> None:
        """Keeps only the responses in the part; all other requests are retried."""
        if not self.part.exists():
            return
        kept = self.part.with_name(self.part.name + _KEPT)
        with open_private(kept) as file:
            for line, custom_id in _responses(self.part):
                self.done.add(digest(custom_id))
                file.write(line)
            file.flush()
            os.fsync(file.fileno())
        kept.replace(self.part)


def digest(custom_id: str) -> int:
    """Returns a short hash of a request's id, which takes less memory."""
    data = custom_id.encode("utf-8", "surrogatepass")
    found = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(found, "little")


def _responses(part: Path) -> Iterator[tuple[bytes, str]]:
    with part.open("rb") as file:
        for line in file:
            try:
                result = _decode_result(line)
            except (ValueError, RecursionError):
                continue  # a last line that is incomplete
            response, custom_id = result.response, result.custom_id
            if response is not None and response.is_final and custom_id:
                yield line, custom_id
