"""Downloads a model into the cache, where it appears when it is whole and checked."""

import logging
import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

from filelock import Timeout
from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

from hookline.exceptions import ModelLoadError
from hookline_hub.cache import CONFIG, Storage, is_whole
from hookline_hub.errors import one_sentence, size_text
from hookline_hub.names import HubName
from hookline_hub.progress import shown
from hookline_hub.receiving import Receiver, WrongContentError
from hookline_hub.remote import Listing, Pause, RemoteFile, endpoint_url, read_listing
from hookline_registry import Failure, isolate

logger = logging.getLogger(__name__)

_AT_ONCE = 4
_END_SECONDS = 1.0
_PART = ".hookline.incomplete"
_BRIEFLY_SECONDS = 0.05


def pull(
    name: HubName,
    cache: Path,
    *,
    weights: bool = True,
    endpoint: str | None = None,
    pause: Pause | None = None,
) -> Path:
    """Returns the folder of a model's newest files, or its GGUF file, once it is here.

    What an earlier try has received is not asked for again. Others see a file when its
    checksum is right, and a snapshot when it is whole.

    Args:
        name: The model.
        cache: Folder of the cache.
        weights: Whether weights are needed as well.
        endpoint: The hub's URL; None for that of HF_ENDPOINT.
        pause: Waits for some seconds; None for really.

    Raises:
        ModelLoadError: It cannot be had, for the reason given.
    """
    endpoint = endpoint or endpoint_url()
    storage = Storage(cache, name.repo)
    with one_sentence(name, endpoint, cache):
        stop = threading.Event()
        pause = pause or stop.wait
        listing = read_listing(name, endpoint, pause, weights=weights)
        snapshot = storage.snapshot(listing.commit)
        if not _has_all(snapshot, listing):
            with locked(storage):
                receiver = Receiver(name, listing.commit, endpoint, stop, pause)
                _Pulled(storage, listing, receiver).complete()
        _write_ref(storage, name, listing.commit)
    if not listing.main and not is_whole(snapshot, weights=False):
        logger.warning("%s has no tokenizer at %s", name, endpoint)
    return snapshot / listing.main


@contextmanager
def locked(storage: Storage) -> Iterator[None]:
    """Lets one process at a time change a model's folder in the cache."""
    storage.lock.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(WeakFileLock(storage.lock, timeout=_BRIEFLY_SECONDS))
        except Timeout:
            logger.info("another process changes %s: waiting for it", storage.repo)
            stack.enter_context(WeakFileLock(storage.lock))
        yield


class _Pulled:
    """A model that is being downloaded; the lock is held."""

    def __init__(self, storage: Storage, listing: Listing, receiver: Receiver) -> None:
        self._storage = storage
        self._receiver = receiver
        self._files, self._main = listing.files, listing.main
        self._snapshot = storage.snapshot(listing.commit)
        self._name = str(receiver.name)

    def complete(self) -> None:
        """Receives what is missing, then makes the snapshot.

        Raises:
            ModelLoadError: The disk is too small, or the hub sends something else.
        """
        missing = [each for each in self._files if not self._is_here(each)]
        if missing:
            self._storage.blobs.mkdir(parents=True, exist_ok=True)
            self._check_space(missing)
            self._receive(missing)
        # Who looks for the configuration first finds all, or nothing.
        last = (CONFIG, self._main)
        for each in sorted(self._files, key=lambda file: file.path in last):
            self._link(each)

    def _receive(self, missing: Sequence[RemoteFile]) -> None:
        total = sum(each.size for each in missing)
        began = time.monotonic()
        here = self._received(missing)
        logger.info(
            "downloading %s: %d files, %s%s, from %s to %s",
            self._name,
            len(missing),
            size_text(total),
            f" of which {size_text(here)} are here" if here else "",
            self._receiver.endpoint,
            self._storage.cache,
        )
        with shown(self._name, total, lambda: self._received(missing)):
            self._receive_all(missing)
        logger.info(
            "downloaded %s in %.1f s; all checksums are right",
            self._name,
            time.monotonic() - began,
        )

    def _receive_all(self, missing: Sequence[RemoteFile]) -> None:
        """Receives several files at a time; the first that fails ends all.

        An interrupt does not wait for threads that wait for the hub.
        """
        unique = {each.digest: each for each in missing}.values()
        files, ended = deque(unique), SimpleQueue[BaseException | None]()
        threads = [
            threading.Thread(
                target=self._work, args=(files, ended), name="hookline-hub", daemon=True
            )
            for _ in range(min(_AT_ONCE, len(unique)))
        ]
        for each in threads:
            each.start()
        try:
            for _ in unique:
                if (error := ended.get()) is not None:
                    raise error
        finally:
            self._receiver.stop.set()
            for each in threads:
                each.join(_END_SECONDS / len(threads))

    def _work(
        self, files: deque[RemoteFile], ended: "SimpleQueue[BaseException | None]"
    ) -> None:
        with suppress(IndexError):
            while not self._receiver.stop.is_set():
                file = files.popleft()
                outcome = isolate(self._receive_one, file)
                if isinstance(outcome, Failure):  # raised by who waits
                    ended.put(outcome.error)
                    return
                ended.put(None)

    def _receive_one(self, file: RemoteFile) -> None:
        part = self._part(file)
        try:
            self._receiver.receive(file, part)
        except WrongContentError as error:
            reason = (
                f"{file.path} is not what {self._receiver.endpoint} announced: "
                f"{error}, twice; nothing of it was kept"
            )
            raise ModelLoadError(self._name, reason) from error
        part.replace(self._storage.blobs / file.digest)

    def _check_space(self, missing: Sequence[RemoteFile]) -> None:
        wanted = sum(each.size for each in missing) - self._received(missing)
        free = shutil.disk_usage(self._storage.blobs).free
        if wanted > free:
            raise ModelLoadError(
                self._name,
                f"needs {size_text(wanted)} more in {self._storage.cache}, which has "
                f"{size_text(free)} free: --download-dir names another folder",
            )

    def _received(self, files: Sequence[RemoteFile]) -> int:
        blobs = self._storage.blobs
        return sum(
            _size(blobs / each.digest) or _size(self._part(each)) or 0 for each in files
        )

    def _is_here(self, file: RemoteFile) -> bool:
        return _size(self._storage.blobs / file.digest) == file.size

    def _part(self, file: RemoteFile) -> Path:
        return self._storage.blobs / f"{file.digest}{_PART}"

    def _link(self, file: RemoteFile) -> None:
        path = self._snapshot / file.path
        if _size(path) == file.size:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        blob = os.path.relpath(self._storage.blobs / file.digest, path.parent)
        made = path.with_name(f".{path.name}.{os.getpid()}")
        made.unlink(missing_ok=True)
        made.symlink_to(blob)
        made.replace(path)


def _has_all(snapshot: Path, listing: Listing) -> bool:
    return all(_size(snapshot / each.path) == each.size for each in listing.files)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _write_ref(storage: Storage, name: HubName, commit: str) -> None:
    """Notes which commit a branch or tag is, so that it is found without the hub."""
    if name.is_commit or storage.commit(name.revision) == commit:
        return
    path = storage.folder / "refs" / name.revision
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(descriptor, "w") as file:
        file.write(commit)
    Path(made).chmod(0o644)
    Path(made).replace(path)
