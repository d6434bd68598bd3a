"""Stores each block as a file that is named by its hash and written atomically.

A file is a safetensors file with one tensor, `kv`: the block's bytes of all layers, one
after another. Its metadata hold the layout's fingerprint, the hash and a checksum. Any
number of processes may share a folder: files are written under a temporary name, then
renamed, and never changed.
"""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

import numpy as np
import xxhash
from safetensors.numpy import save

from hookline_kv_transfer import KVLayout
from hookline_kv_transfer.blocks import Bytes
from hookline_shared_storage.folder import LayoutFolder
from hookline_shared_storage.options import StorageOptions

_HEADER_BYTES = 8
_MOST_HEADER = 1 << 16
_ABANDONED_SECONDS = 3600.0
_KEPT_SHARE = 0.9
"""Share of `max_bytes` that is kept once the limit is exceeded."""


class DamagedError(Exception):
    """A block cannot be read.

    Attributes:
        reason: `missing`, `unreadable`, `truncated`, `corrupt` or `foreign`.
    """

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class BlockStore:
    """The files of one layout under a folder that others may share.

    Attributes:
        num_files: Number of files at the last scan, plus own ones since.
        num_bytes: Size of these files.
    """

    def __init__(self, options: StorageOptions, layout: KVLayout) -> None:
        """Creates the folder, for this user only.

        Raises:
            OSError: The folder cannot be created, or others may write to it.
        """
        self._root = options.shared_storage_path
        self._layout = layout
        self._max_bytes = options.max_bytes
        self._folder = LayoutFolder(self._root, layout.fingerprint)
        self._resets, self._lock = 0, threading.Lock()
        # Other processes write, too, so the folder is scanned again well before own
        # writes alone reach the limit.
        self._unseen_bytes = self._max_bytes
        self.num_files = self.num_bytes = 0

    def path_of(self, block_hash: bytes) -> Path:
        """Returns a block's path; hexadecimal, so no hash leads out of the folder."""
        name = block_hash.hex()
        return self._folder.path / name[:2] / f"{name}.safetensors"

    def has(self, block_hash: bytes) -> bool:
        return os.path.exists(self.path_of(block_hash))  # noqa: PTH110 - the quicker

    def read(self, block_hash: bytes, into: Bytes) -> None:
        """Reads and checks a block's bytes of all layers.

        A damaged file is removed, so that it can be written again.

        Args:
            block_hash: Hash of the block.
            into: [`layout.total_bytes`] uint8; undefined after a failure.

        Raises:
            DamagedError: The file is missing, damaged or of another block.
        """
        path = self.path_of(block_hash)
        try:
            self._folder.check()
            with path.open("rb") as file:
                self._fill(into, file, path, block_hash)
                with suppress(OSError):  # on a file system that is read-only by now
                    os.utime(file.fileno())
        except FileNotFoundError as error:
            raise DamagedError("missing", path) from error
        except OSError as error:
            raise DamagedError("unreadable", path) from error
        except DamagedError:
            with suppress(OSError):
                path.unlink()
            raise

    @property
    def num_resets(self) -> int:
        """How often it was emptied; of blocks to write, see `write`."""
        return self._resets

    def empty(self) -> None:
        """Has no blocks any more; `sweep` deletes their files.

        Raises:
            OSError: The folder cannot be renamed, or must not be used.
        """
        with self._lock:
            self._resets += 1
            self._folder.remove()

    def sweep(self) -> None:
        """Deletes what `empty` has left, and looks at what there is."""
        self._folder.sweep()
        self.shrink()

    def write(
        self, block_hash: bytes, content: Bytes, num_resets: int | None = None
    ) -> bool:
        """Writes a block's file unless it exists; returns whether it did.

        If the folder is gone, it is made again, unless it was another user's.

        Args:
            block_hash: Hash of the block.
            content: Its bytes of all layers.
            num_resets: Their number when the content was taken; it is not written if
                the store was emptied since.

        Raises:
            OSError: The disk is full, or the folder is not writable.
        """
        try:
            self._folder.check()
            return self._write(block_hash, content, num_resets)
        except FileNotFoundError:
            self._folder.restore()
            self._unseen_bytes = self._max_bytes
            return self._write(block_hash, content, num_resets)

    def _write(self, block_hash: bytes, content: Bytes, num_resets: int | None) -> bool:
        path = self.path_of(block_hash)
        if path.exists():
            return False
        path.parent.mkdir(exist_ok=True, mode=0o700)
        content = np.ascontiguousarray(content)
        metadata = {
            "fingerprint": self._layout.fingerprint,
            "block_hash": block_hash.hex(),
            "xxh3": xxhash.xxh3_64_hexdigest(content.data),
        }
        data = save({"kv": content}, metadata=metadata)
        handle, temporary = tempfile.mkstemp(".tmp", ".", path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            with self._lock:
                if num_resets not in (None, self._resets):
                    os.unlink(temporary)  # noqa: PTH108 - a name, not a path
                    return False
                os.replace(temporary, path)  # noqa: PTH105 - a name, not a path
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108 - a name, not a path
            raise
        self._unseen_bytes += len(data)
        self.num_files += 1
        self.num_bytes += len(data)
        if self._unseen_bytes > self._max_bytes // 20:
            self.shrink()
        return True

    def remove(self, block_hash: bytes) -> None:
        """Removes a block's file if it exists; ignores a folder that forbids it."""
        with suppress(OSError):
            self.path_of(block_hash).unlink()

    def shrink(self) -> None:
        """Removes the least recently used files if the limit is exceeded."""
        self._unseen_bytes = 0
        files = sorted(self._files(), key=lambda each: each[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        now = max((status.st_mtime for _, status in files), default=0.0)
        is_too_much = total > self._max_bytes
        count = len(files)
        for path, status in files:
            is_left = path.suffix == ".tmp"
            is_old = is_left and status.st_mtime < now - _ABANDONED_SECONDS
            if is_old or (
                is_too_much and not is_left and total > self._max_bytes * _KEPT_SHARE
            ):
                with suppress(OSError):  # another process removed it, or it is stale
                    path.unlink()
                total -= status.st_size
                count -= 1
        self.num_files, self.num_bytes = count, total

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Yields the files of all layouts, which share the limit."""
        for path in self._root.glob("*/*/*"):
            with suppress(OSError):
                yield path, path.stat()

    def _fill(
        self, into: Bytes, file: BufferedReader, path: Path, block_hash: bytes
    ) -> None:
        size = int.from_bytes(file.read(_HEADER_BYTES), "little")
        header = file.read(min(size, _MOST_HEADER))
        if not size or len(header) < size:
            raise DamagedError("truncated", path)
        try:
            metadata = json.loads(header)["__metadata__"]
            identity = metadata["fingerprint"], metadata["block_hash"]
            checksum = metadata["xxh3"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedError("corrupt", path) from error
        if identity != (self._layout.fingerprint, block_hash.hex()):
            raise DamagedError("foreign", path)  # checked first: sizes may differ
        if file.readinto(into.data) < self._layout.total_bytes or file.read(1):
            raise DamagedError("truncated", path)
        if xxhash.xxh3_64_hexdigest(into.data) != checksum:
            raise DamagedError("corrupt", path)
