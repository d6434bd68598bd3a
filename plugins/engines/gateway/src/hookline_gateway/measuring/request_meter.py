"""Measures one request, from its arrival to the end of its answer."""

import asyncio
from collections.abc import Mapping
from functools import cached_property, partial

from aiohttp import hdrs, web

from hookline.clock import NANOSECONDS
from hookline.finish_cause import Aborted, Failed, FinishCause
from hookline.frontend.input_processor import completed
from hookline.frozen import EMPTY
from hookline.request import GenerateRequest, RequestFacts
from hookline_gateway.asked import Asked
from hookline_gateway.measuring.answer_reading import Found
from hookline_gateway.measuring.body_meter import BodyMeter
from hookline_gateway.measuring.books import Books
from hookline_gateway.measuring.choices_meter import ChoicesMeter
from hookline_gateway.measuring.event_meter import EventMeter
from hookline_gateway.measuring.measurement import (
    NOTHING,
    Measurement,
    cause_of,
    refused_by,
)
from hookline_gateway.measuring.token_counter import Recount
from hookline_gateway.upstreams.connections.head import Head
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.relay import EVENT_STREAM, SeeBytes
from hookline_server.api_error import ApiError
from hookline_server.header_options import SLO_HEADER, requested_slo
from hookline_server.request_identity import IDENTITY, request_facts
from hookline_server.trace_rules import trace_rules

CLIENT_LEFT = "client_disconnect"


class RequestMeter:
    """Accounts for one request, whichever upstream answers it."""

    def __init__(
        self,
        books: Books,
        request: web.Request,
        asked: Asked,
        arrived_at: int,
        recount: Recount | None = None,
    ) -> None:
        """Accounts for nothing before `ask`.

        Args:
            books: The accounts.
            request: The request.
            asked: What of its body is known.
            arrived_at: When it arrived, in ns.
            recount: Counts its tokens if the answer does not tell them.

        Raises:
            RequestError: Its header has no valid objectives.
        """
        text = request.headers.get(SLO_HEADER)
        self._slo = None if text is None else requested_slo(text)
        self._request = request
        self._books = books
        self._asked = asked
        self._arrived_at = arrived_at
        self._request_id = 0
        self._instance: Instance | None = None
        self._status = 0
        self._choices = 1
        self._meter: EventMeter | BodyMeter | None = None
        self._recount = recount

    @cached_property
    def facts(self) -> RequestFacts:
        """What the loggers know of it."""
        request, config = self._request, self._books.config
        facts = completed(request_facts(request, slo=self._slo), config)
        request[IDENTITY].facts = facts
        return facts

    @property
    def trace_headers(self) -> Mapping[str, str]:
        """Headers that make this request's span the parent of the upstream's."""
        if self._books.config.trace_ratio is None or not self.facts.trace_id:
            return EMPTY
        facts = self.facts
        return trace_rules().headers(facts.trace_id, facts.span_id, facts.trace_context)

    def ask(self, instance: Instance) -> None:
        """An upstream was asked, perhaps after others that have not served it."""
        engine = self._books.of(instance)
        if self._instance is None:
            params = self._asked.params()
            self._choices = params.n
            self._request_id = self._books.new_id()
            engine.admit(
                GenerateRequest(
                    request_id=self._request_id,
                    prompt_token_ids=[],
                    params=params,
                    facts=self.facts,
                ),
                self._request_id,
                arrived_at=self._arrived_at,
                is_streamed=self._asked.is_streamed,
            )
        else:
            accounts = self._books.of(self._instance).detach(self._request_id)
            engine.take_over(accounts)
        self._instance = instance
        self._books.tell_soon()

    def see_head(self, head: Head) -> SeeBytes | None:
        """Begins to measure an answer; returns what sees its bytes."""
        self._status = head.status
        is_coded = head.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity"
        if head.status >= 300 or is_coded:
            return None
        if head.content_type == EVENT_STREAM:
            kind = EventMeter if self._choices == 1 else ChoicesMeter
            self._meter = kind(self._books.clock.now, self._first)
        elif "json" in head.content_type:
            self._meter = BodyMeter()
        meter, recount = self._meter, self._recount
        if meter is None or recount is None:
            return None if meter is None else meter.see

        def see(piece: bytes) -> None:
            meter.see(piece)
            recount.see(piece)

        return see

    async def answered(self) -> None:
        """The answer was passed on to its last byte."""
        meter, recount = self._meter, self._recount
        try:
            if meter is not None and recount is not None:
                meter.finish()
                await asyncio.to_thread(
                    recount.add_to,
                    meter.found,
                    is_stream=isinstance(meter, EventMeter),
                )
        finally:  # a client that leaves meanwhile has its answer
            self._books.later(partial(self._end_answered, self._books.clock.now()))

    def _end_answered(self, at: int) -> None:
        meter = self._meter
        if self._status >= 300:
            self._end(refused_by(self._status), at)
            return
        if meter is not None:
            meter.finish()
        found = Found() if meter is None else meter.found
        self._end(cause_of(found, is_stream=isinstance(meter, EventMeter)), at)

    def failed(self, error: BaseException) -> None:
        """The answer was not passed on, or not to its end."""
        facts, at = self.facts, self._books.clock.now()
        if self._meter is not None:
            self._meter.finish()
        if isinstance(error, (asyncio.CancelledError, ConnectionError)):
            self._end(Aborted(CLIENT_LEFT), at)
        elif isinstance(error, ApiError) and self._instance is None:
            self._books.of(None).reject(facts, error.rejection)
            self._books.tell_soon()
        elif isinstance(error, ApiError):
            self._end(Failed(error.code), at)
        else:
            self._end(Failed(type(error).__name__), at)

    def _first(self, at: int) -> None:
        self._books.of(self._instance).first_token(self._request_id, at)
        self._books.tell_soon()

    def _end(self, cause: FinishCause, at: int) -> None:
        if self._instance is None:
            return  # its client has left before anybody was asked
        engine = self._books.of(self._instance)
        engine.ended(self._request_id, cause, at, self._measured())
        self._meter = None
        self._books.tell_soon()

    def _measured(self) -> Measurement:
        meter = self._meter
        if meter is None:
            return NOTHING
        found, last_at, intervals = meter.found, None, []
        tokens = found.output_tokens
        if isinstance(meter, EventMeter):
            last_at = meter.last_at
            if tokens is not None:
                intervals = [
                    (ns / NANOSECONDS / brought, brought)
                    for ns, brought in meter.intervals(tokens)
                ]
        return Measurement(
            prompt_tokens=found.prompt_tokens,
            cached_tokens=found.cached_tokens,
            output_tokens=tokens,
            last_at=last_at,
            intervals=intervals,
        )
