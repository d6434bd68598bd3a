"""A fake vLLM with Hookline attached to its API server."""

from typing import Any

from hookline_testing.fake_vllm import (
    AggregateStatLoggerBase,
    FakeVllm,
    output_processor,
    vllm_config,
)
from hookline_testing.waiting import wait_until
from hookline_vllm.attachment import Attachment
from hookline_vllm.general import wrap_processor
from hookline_vllm.stat_logger import make_stat_logger


class AttachedServer:
    """One of the API servers of a fake vLLM, whose loggers the environment names.

    Attributes:
        vllm: The fake, which tells what happens.
    """

    def __init__(
        self, index: int = 0, count: int = 1, *, tells_requests: bool = True
    ) -> None:
        self.attachment = Attachment()
        processor = output_processor()
        if tells_requests:
            wrap_processor(processor, self.attachment)
        config = vllm_config(servers=count, server=index)
        logger = make_stat_logger(AggregateStatLoggerBase, self.attachment)
        made = logger(config, [0])
        made.log_engine_initialized()
        self.vllm = FakeVllm(processor(), made)

    def close(self) -> None:
        self.attachment.close()

    def wait_until_begun(self) -> None:
        """Waits for the loggers."""
        wait_until(lambda: self.attachment.has_begun, "the loggers do not start")

    async def page(self, path: str) -> tuple[int, str]:
        """Returns the status and the body of a page."""
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        scope = {"method": "GET", "path": path, "headers": [], "query_string": b""}
        await self.attachment.pages.serve(scope, receive, send)
        body = b"".join(each.get("body", b"") for each in sent)
        return sent[0]["status"], body.decode()
