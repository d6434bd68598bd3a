"""Blocks as files: one a block, named by its content, whole or not there.

A file is a safetensors file with one tensor, `kv`: the block's bytes of all layers,
one after another. Its metadata say whose they are and what they add up to. Any number
of processes may use a folder: files are written beside and then renamed, and nobody
changes one that is there.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

import numpy as np
import xxhash
from safetensors.numpy import save

from hookline.kv_transfer import KVLayout
from hookline.kv_transfer.blocks import Bytes
from hookline_shared_storage.options import StorageOptions

_HEADER_BYTES = 8
_MOST_HEADER = 1 << 16
_ABANDONED_SECONDS = 3600.0
_KEPT_SHARE = 0.9
"""Of `max_bytes`, once too much was there."""


class DamagedError(Exception):
    """A block that cannot be had.

    Attributes:
        reason: `missing`, `unreadable`, `truncated`, `corrupt` or `foreign`.
    """

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class BlockStore:
    """The files of one layout under a folder that others may share.

    Attributes:
        num_files: In the folder, when it was last looked at, and own ones since then.
        num_bytes: Theirs.
    """

    def __init__(self, options: StorageOptions, layout: KVLayout) -> None:
        """Makes the folder.

        Raises:
            OSError: It cannot be made.
        """
        self._root = options.shared_storage_path
        self._layout = layout
        self._max_bytes = options.max_bytes
        self._folder = self._root / layout.fingerprint
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Many write: each looks again before its own share of the limit is used up.
        self._unseen_bytes = self._max_bytes
        self.num_files = self.num_bytes = 0

    def path_of(self, block_hash: bytes) -> Path:
        """Hexadecimal digits alone: no hash leads out of the folder."""
        name = block_hash.hex()
        return self._folder / name[:2] / f"{name}.safetensors"

    def has(self, block_hash: bytes) -> bool:
        return os.path.exists(self.path_of(block_hash))  # noqa: PTH110 - the quicker

    def read(self, block_hash: bytes, into: Bytes) -> None:
        """A block's bytes of all layers, checked.

        A file that is not right is removed, so that it is written anew.

        Args:
            block_hash: Whose.
            into: [`layout.total_bytes`] uint8; rubbish if this fails.

        Raises:
            DamagedError: It is missing, damaged or of something else.
        """
        path = self.path_of(block_hash)
        try:
            with path.open("rb") as file:
                self._fill(into, file, path, block_hash)
                os.utime(file.fileno())
        except FileNotFoundError as error:
            raise DamagedError("missing", path) from error
        except OSError as error:
            raise DamagedError("unreadable", path) from error
        except DamagedError:
            with suppress(OSError):
                path.unlink()
            raise

    def write(self, block_hash: bytes, content: Bytes) -> None:
        """Makes a block's file, unless it is there.

        Raises:
            OSError: The disk is full, or the folder cannot be written to.
        """
        path = self.path_of(block_hash)
        if path.exists():
            return
        path.parent.mkdir(exist_ok=True, mode=0o700)
        content = np.ascontiguousarray(content)
        told = {
            "fingerprint": self._layout.fingerprint,
            "block_hash": block_hash.hex(),
            "xxh3": xxhash.xxh3_64_hexdigest(content.data),
        }
        data = save({"kv": content}, metadata=told)
        handle, beside = tempfile.mkstemp(".tmp", ".", path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(beside, path)  # noqa: PTH105 - of a name, not a path
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)  # noqa: PTH108 - likewise
            raise
        self._unseen_bytes += len(data)
        self.num_files += 1
        self.num_bytes += len(data)
        if self._unseen_bytes > self._max_bytes // 20:
            self.shrink()

    def shrink(self) -> None:
        """Removes the least recently used files while there is too much."""
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
                with suppress(FileNotFoundError):  # somebody else was quicker
                    path.unlink()
                total -= status.st_size
                count -= 1
        self.num_files, self.num_bytes = count, total

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Of all layouts: the limit is the folder's."""
        for path in self._root.glob("*/*/*"):
            with suppress(FileNotFoundError):
                yield path, path.stat()

    def _fill(
        self, into: Bytes, file: BufferedReader, path: Path, block_hash: bytes
    ) -> None:
        size = int.from_bytes(file.read(_HEADER_BYTES), "little")
        header = file.read(min(size, _MOST_HEADER))
        if not size or len(header) < size:
            raise DamagedError("truncated", path)
        try:
            told = json.loads(header)["__metadata__"]
            whose = told["fingerprint"], told["block_hash"]
            checksum = told["xxh3"]
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedError("corrupt", path) from error
        if whose != (self._layout.fingerprint, block_hash.hex()):
            raise DamagedError("foreign", path)  # whose size may be another
        if file.readinto(into.data) < self._layout.total_bytes or file.read(1):
            raise DamagedError("truncated", path)
        if xxhash.xxh3_64_hexdigest(into.data) != checksum:
            raise DamagedError("corrupt", path)
