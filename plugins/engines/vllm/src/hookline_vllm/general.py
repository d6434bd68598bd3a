"""The general plugin: has vLLM's front end tell of each request."""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from hookline_vllm.attachment import ATTACHMENT, Attachment
from hookline_vllm.notices import AbortedIds, Added, HttpFacts, Outputs, now
from hookline_vllm.scheduling import wrap_choice
from hookline_vllm.shapes import OUTPUT, REQUEST, attach, need, wrap

HTTP: ContextVar[HttpFacts | None] = ContextVar("hookline_http", default=None)
"""What is known of the HTTP request in whose task a request is added."""


def register() -> None:
    """Called by vLLM in each of its processes, perhaps more than once."""
    attach("requests", _wrap_front_end)
    attach("steps", _wrap_scheduler)


def _wrap_scheduler() -> None:
    from vllm.config.scheduler import SchedulerConfig  # noqa: PLC0415 - only there

    wrap_choice(SchedulerConfig)


def _wrap_front_end() -> None:
    from vllm.v1 import engine  # noqa: PLC0415 - only there
    from vllm.v1.engine import output_processor  # noqa: PLC0415

    need(output_processor, "OutputProcessor")
    need(engine.EngineCoreRequest, *REQUEST)
    need(engine.EngineCoreOutput, *OUTPUT)
    wrap_processor(output_processor.OutputProcessor, ATTACHMENT)


def wrap_processor(processor: type, attachment: Attachment) -> None:
    """Wraps `OutputProcessor`; all of it or nothing."""
    need(processor, "add_request", "process_outputs", "abort_requests")
    inbox = attachment.inbox

    def added(
        _result: object,
        processor: Any,
        request: Any,
        _prompt: object = None,
        parent_req: Any = None,
        *_: object,
        **__: object,
    ) -> None:
        attachment.processor = processor
        http = HTTP.get()
        if http is not None and not http.client_id:
            http.client_id = str(request.external_req_id or "")
        parent, n = None, 1
        if parent_req is not None:
            parent, n = parent_req.request_id, parent_req.n
        inbox.put(Added(now(), request, parent, n, http))

    def processed(
        result: Any,
        _self: object,
        engine_core_outputs: list[Any],
        engine_core_timestamp: float | None = None,
        *_: object,
        **__: object,
    ) -> None:
        if not inbox.is_open:
            return
        at = now()
        timestamp = engine_core_timestamp
        if timestamp is None:
            timestamp = at / 1e9
        stopped = result.reqs_to_abort
        tokens = [tuple(each.new_token_ids) for each in engine_core_outputs]
        inbox.put(Outputs(at, engine_core_outputs, tokens, timestamp, stopped))

    def aborted(result: Iterable[str], *_: object, **__: object) -> None:
        if ids := tuple(result):
            inbox.put(AbortedIds(now(), ids))

    wrap(processor, "add_request", added)
    wrap(processor, "process_outputs", processed)
    wrap(processor, "abort_requests", aborted)
    attachment.tells_requests = True
