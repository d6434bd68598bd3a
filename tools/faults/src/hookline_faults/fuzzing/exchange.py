"""Clients that send cases to a server over keep-alive connections."""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass

from hookline_faults.fuzzing.case import Case, Ending
from hookline_faults.fuzzing.responses import fault_of, read_response, statuses

PATIENCE_SECONDS = 8.0
"""A client that has had no complete response by then leaves."""
RAW_PATIENCE_SECONDS = 0.15
"""The same for bytes that are not HTTP, which servers may wait to see continued."""
_MOST_HEAD = 1 << 17
_LINGER_NOTHING = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended.

    Attributes:
        label: The status, or how else the exchange ended.
        fault: What the server did wrong, or None.
    """

    label: str
    fault: str | None = None


class FuzzClient:
    """One client; sends one case at a time and reconnects when it has to."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, case: Case) -> Outcome:
        """Sends a case; returns how it ended."""
        try:
            if case.is_request:
                return await self._request(case)
            return await self._raw(case)
        except (TimeoutError, ConnectionRefusedError) as error:
            self.close()
            return Outcome("no connection", f"cannot connect: {error!r}")

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _request(self, case: Case) -> Outcome:
        """Sends a request; once more if its connection had just been closed."""
        was_open = self._streams is not None
        outcome = await self._attempt(case)
        if outcome is None and was_open:
            outcome = await self._attempt(case)
        if outcome is not None:
            return outcome
        # A server may refuse a body, and close while the client still sends it.
        is_large = len(case.data) > _MOST_HEAD // 2
        fault = None if is_large else "closed without a response"
        return Outcome("closed", fault)

    async def _attempt(self, case: Case) -> Outcome | None:
        reader, writer = await self._connected()
        is_head = case.data.startswith(b"HEAD ")
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                writer.write(case.data)
                drained = asyncio.ensure_future(_drain(writer))
                try:
                    response = await read_response(reader, is_head=is_head)
                finally:
                    drained.cancel()
        except TimeoutError:
            self.close()
            return Outcome("client left")
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            return None
        except (ValueError, asyncio.LimitOverrunError) as error:
            self.close()
            return Outcome("not HTTP", str(error))
        if response.closes:
            self.close()
        fault = fault_of(response, may_time_out=case.may_time_out, is_head=is_head)
        if fault is None and case.judge is not None:
            fault = case.judge(response)
        return Outcome(str(response.status), fault)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._streams = await _open(self._address)
        return self._streams

    async def _raw(self, case: Case) -> Outcome:
        reader, writer = await _open(self._address)
        data = b""
        if case.ending is Ending.RESET:
            made = writer.get_extra_info("socket")
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
        try:
            with contextlib.suppress(OSError):  # timeouts are OSErrors
                await _send_pieces(writer, case)
                data = await _read_all(reader, case.ending)
        finally:
            writer.close()
        found = statuses(data)
        wrong = [each for each in found if each >= 500 and each not in {501, 503, 505}]
        label = str(found[0]) if found else ("bytes" if data else "no response")
        return Outcome(label, f"statuses {found}" if wrong else None)


async def _open(
    address: tuple[str, int],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await asyncio.open_connection(*address, limit=_MOST_HEAD)


async def _drain(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        await writer.drain()


async def _send_pieces(writer: asyncio.StreamWriter, case: Case) -> None:
    async with asyncio.timeout(RAW_PATIENCE_SECONDS * 4):
        for piece in case.pieces:
            writer.write(piece)
            await writer.drain()
            if case.pause_seconds:
                await asyncio.sleep(case.pause_seconds)
        if case.ending is Ending.HALF_CLOSE:
            writer.write_eof()


async def _read_all(reader: asyncio.StreamReader, ending: Ending) -> bytes:
    """Reads until the end, or until nothing comes any more."""
    if ending in {Ending.CLOSE, Ending.RESET}:
        return b""
    data = bytearray()
    with contextlib.suppress(TimeoutError):
        while len(data) < _MOST_HEAD:
            async with asyncio.timeout(RAW_PATIENCE_SECONDS):
                piece = await reader.read(_MOST_HEAD)
            if not piece:
                break
            data += piece
    return bytes(data)
