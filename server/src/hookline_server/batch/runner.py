"""Sends a batch's requests to the server, and writes what comes back."""

import asyncio
import uuid
from dataclasses import dataclass

import aiohttp
from msgspec import Raw

from hookline_server.batch.input_file import InputFile, Line
from hookline_server.batch.lines import (
    REFUSED_FOR_NOW,
    BatchRequest,
    BatchResponse,
    BatchResult,
    LineError,
    read_request,
    result_line,
)
from hookline_server.batch.output_file import OutputFile, digest
from hookline_server.batch.window import Window

MOST_TRIES = 100
_WAIT_SECONDS = 0.5


@dataclass(slots=True)
class Progress:
    """The progress of a batch.

    Attributes:
        done: Requests with a line in the output.
        failed: Those whose line is an error.
        resumed: Requests that an earlier run has done.
    """

    done: int = 0
    failed: int = 0
    resumed: int = 0


class BatchRunner:
    """Runs the requests of one input file.

    Attributes:
        progress: Its progress.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        urls: frozenset[str],
        source: InputFile,
        output: OutputFile,
        window: Window,
    ) -> None:
        self.progress = Progress()
        self._session = session
        self._urls = urls
        self._source = source
        self._output = output
        self._window = window
        self._seen: set[int] = set()

    async def run(self) -> None:
        """Sends all requests, and returns when every line has a result.

        Raises:
            CommandFailedError: The output cannot be written.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                while lines := await asyncio.to_thread(self._source.next_slice):
                    for line in lines:
                        await self._begin(tasks, line)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None

    async def _begin(self, tasks: asyncio.TaskGroup, line: Line) -> None:
        try:
            request = self._read(line)
        except LineError as error:
            self._write(_failed(error))
            return
        if request is None:
            self.progress.resumed += 1
            return
        size = len(line.data or b"")
        await self._window.enter(size)
        tasks.create_task(self._run(request, size))

    def _read(self, line: Line) -> BatchRequest | None:
        """Returns the request of a line; None if an earlier run has done it."""
        if line.data is None:
            raise LineError("line_too_long", f"line {line.number} is too long")
        request = read_request(line.data, line.number, self._urls)
        name = digest(request.custom_id)
        if name in self._seen:
            raise LineError(
                "duplicate_custom_id",
                f"line {line.number}: a line before it has the same custom_id",
                request.custom_id,
            )
        self._seen.add(name)
        return None if name in self._output.done else request

    async def _run(self, request: BatchRequest, size: int) -> None:
        try:
            self._write(await self._result(request))
        finally:
            self._window.leave(size)

    async def _result(self, request: BatchRequest) -> BatchResult:
        try:
            response = await self._send(request)
        except LineError as error:
            return _failed(error)
        return BatchResult(
            id=f"batch_req_{response.request_id}",
            custom_id=request.custom_id,
            response=response,
        )

    async def _send(self, request: BatchRequest) -> BatchResponse:
        """Sends a request, and retries while the server is full."""
        name = uuid.uuid4().hex
        for tries in range(1, MOST_TRIES + 1):
            response = await self._post(request, name)
            if response.status_code not in REFUSED_FOR_NOW or tries == MOST_TRIES:
                break
            await asyncio.sleep(_WAIT_SECONDS)
        return response

    async def _post(self, request: BatchRequest, name: str) -> BatchResponse:
        headers = {"Content-Type": "application/json", "X-Request-Id": name}
        try:
            async with self._session.post(
                request.url, data=bytes(request.body), headers=headers
            ) as response:
                if response.content_type != "application/json":
                    raise LineError(
                        "stream_not_supported",
                        "stream: a batch has no streams",
                        request.custom_id,
                    )
                body = await response.read()
        except aiohttp.ClientError as error:
            raise LineError(
                "connection_error", f"no response: {error}", request.custom_id
            ) from error
        return BatchResponse(
            status_code=response.status, request_id=name, body=Raw(body)
        )

    def _write(self, result: BatchResult) -> None:
        self._output.write(result_line(result))
        self.progress.done += 1
        self.progress.failed += result.is_failure


def _failed(error: LineError) -> BatchResult:
    return BatchResult(
        id=f"batch_req_{uuid.uuid4().hex}",
        custom_id=error.custom_id,
        error=error.error,
    )
