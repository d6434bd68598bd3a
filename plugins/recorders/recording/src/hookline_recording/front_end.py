"""The ring of a front end: how it saw requests, also those that it refused."""

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from hookline.clock import NANOSECONDS
from hookline.finish_cause import FinishCause, Rejected
from hookline.payloads import HttpExchange
from hookline.stats.finished_request import FinishedRequest
from hookline_metrics.slo import misses_of
from hookline_recording.folder import rings_folder
from hookline_recording.front_end_schema import (
    FRONT_END_NUMBERS,
    NUMBERS_OF_FRONT_END,
    Answered,
    Served,
)
from hookline_recording.reading import FRONT_END
from hookline_recording.ring import MappedFile, fair_share, largest
from hookline_recording.schema import Header

CAPACITY = 4 * 1024 * 1024
"""About 30 000 requests, more than the ring of an engine has."""
LEAST_CAPACITY = 64 * 1024
_MOST_PIDS = 1 << 22


class FrontEndRing:
    """Written by the thread of a logger's lane."""

    def __init__(self, owner_pid: int) -> None:
        """Makes the ring.

        Args:
            owner_pid: The server's process, whose engines it belongs to.

        Raises:
            OSError: There is no place for one.
        """
        pid = os.getpid()
        folder = rings_folder()
        path = folder / f"front-{owner_pid}-{pid}{FRONT_END}"
        with suppress(FileNotFoundError):
            path.unlink()  # of an earlier process with this number
        header = Header(
            engine_index=-1,
            pid=pid,
            owner_pid=owner_pid,
            wall=time.time_ns(),
            monotonic=time.monotonic_ns(),
        )
        self._file = largest(
            lambda capacity: MappedFile(path, capacity, header),
            fair_share(folder, CAPACITY),
            LEAST_CAPACITY,
        )
        self._number = FRONT_END_NUMBERS + pid % _MOST_PIDS * NUMBERS_OF_FRONT_END
        self._encode = msgspec.msgpack.Encoder().encode

    @property
    def path(self) -> Path:
        return self._file.path

    def add_served(self, engine_index: int, request: FinishedRequest) -> None:
        """Adds a completion that has ended, or a request that was refused."""
        facts, times = request.facts, request.times
        self._write(
            Served(
                time.time_ns(),
                engine_index,
                request.request_id,
                facts.client_id,
                facts.response_id,
                facts.tenant,
                str(request.reason),
                _kind(request.cause),
                0 if times is None else times.arrived,
                None if times is None else times.queued,
                _nanoseconds(request.preparation_seconds),
                _nanoseconds(request.ttft_seconds),
                _nanoseconds(request.e2e_seconds) or 0,
                request.is_streamed,
                request.output_tokens,
                [each.objective for each in misses_of(request)],
            )
        )

    def add_answered(self, exchange: HttpExchange) -> None:
        """Adds a response to a request for the engine."""
        self._write(
            Answered(
                time.time_ns(),
                exchange.client_id,
                exchange.route,
                exchange.status,
                exchange.begun,
                _nanoseconds(exchange.first_byte_seconds),
                _nanoseconds(exchange.seconds) or 0,
                _nanoseconds(exchange.unread_seconds) or 0,
                exchange.request_bytes,
                exchange.response_bytes,
            )
        )

    def close(self) -> None:
        """Removes it."""
        self._file.close(is_kept=False)

    def _write(self, record: Served | Answered) -> None:
        self._number += 1
        self._file.write(self._number, self._encode(record))


def _kind(cause: FinishCause) -> str:
    return cause.kind if isinstance(cause, Rejected) else type(cause).__name__


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NANOSECONDS)
