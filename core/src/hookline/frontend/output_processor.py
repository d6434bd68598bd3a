"""Delivers an engine's outputs to clients, and reports to the accounting."""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import force_setattr

from hookline.clock import Clock
from hookline.config.extensions import KV_TRANSFER
from hookline.events import Finished, NewTokens, StepOutput
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Aborted, Corrupted, Failed, FinishCause
from hookline.frontend.accounting import RequestAccounting
from hookline.frontend.client_request import ClientRequest, CompletionState
from hookline.frontend.stop_strings import StopScope
from hookline.frontend.text_stream import TextStream
from hookline.pooling import VECTORS
from hookline.request import GenerateRequest, Origin
from hookline.sections import NO_SECTIONS
from hookline.stats.iteration_stats import IterationStats
from hookline_registry.failure_log import FailureLog

Stopped = dict[FinishCause, list[int]]
"""Ids of requests that a stop string ended, by that cause."""


class OutputProcessor:
    """Turns the tokens of one engine into text and outputs for clients.

    Attributes:
        accounting: The requests in numbers; it sees every output, too.
    """

    def __init__(
        self,
        accounting: RequestAccounting,
        clock: Clock,
        make_texts: Callable[[GenerateRequest, StopScope], Sequence[TextStream]],
    ) -> None:
        """Starts without requests.

        Args:
            accounting: The accounting of the same engine.
            clock: The front end's clock.
            make_texts: Makes the text streams of a request's completions, given where
                stop strings count.
        """
        self.accounting = accounting
        self._clock = clock
        self._make_texts = make_texts
        self._completions: dict[int, CompletionState] = {}
        self._corruptions = FailureLog("corrupted output")

    def add(
        self, client: ClientRequest, request_ids: Sequence[int], arrived_at: int
    ) -> None:
        """Admits a client's request.

        Args:
            client: The request, with the first of the ids.
            request_ids: An id for each of its `n` completions.
            arrived_at: When it arrived, in ns on the front end's clock.
        """
        request = client.inner
        accounts = self.accounting.admit(
            request, request_ids, arrived_at=arrived_at, is_streamed=client.is_streamed
        )
        for account in accounts:
            completion = CompletionState(client, account)
            client.completions.append(completion)
            self._completions[account.request_id] = completion
        client.num_open = len(accounts)

    def on_step_output(self, output: StepOutput) -> tuple[IterationStats, Stopped]:
        """Delivers an output to clients.

        Returns:
            The output's statistics, and the requests that a stop string ended: the
            engine must end them, too.
        """
        now = self._clock.now()
        ends = {event.request_id: event for event in output.events.finished}
        touched: dict[ClientRequest, None] = {}
        stopped: Stopped = {}
        for tokens in output.events.new_tokens:
            end = ends.get(tokens.request_id)
            completion = self._take_tokens(tokens, end, now)
            if completion is None:
                continue
            touched[completion.request] = None
            if end is None and (cause := completion.account.cause) is not None:
                ids = stopped.setdefault(cause, [])
                ids.append(tokens.request_id)
        for event in output.events.finished:
            if (ended := self._take_end(event, now)) is not None:
                touched[ended.request] = None
        # Outputs carry numbers, so the accounting comes before their delivery.
        iteration = self.accounting.on_step_output(output, now)
        for request in touched:
            request.deliver_output(self.accounting.wall)
        return iteration, stopped

    @property
    def open_requests(self) -> list[ClientRequest]:
        """The requests whose clients still expect output, in order of arrival."""
        completions = self._completions.values()
        return list(dict.fromkeys(one.request for one in completions if one.is_open))

    def abort(self, request: ClientRequest, cause: Aborted | Failed) -> list[int]:
        """Ends a request for its client.

        Returns:
            The ids that the engine must end; none if the request has ended.
        """
        now = self._clock.now()
        ids = []
        for completion in request.completions:
            if completion.is_open:
                self._close(completion, cause, now)
                ids.append(completion.account.request_id)
        return ids

    @property
    def open_ids(self) -> set[int]:
        """Ids of the completions whose clients still expect output."""
        return {number for number, one in self._completions.items() if one.is_open}

    @property
    def untouched(self) -> list[ClientRequest]:
        """The requests that can begin again without their client noticing."""
        return [each for each in self.open_requests if each.is_untouched]

    def end_all(
        self,
        cause: Aborted | Failed,
        error: EngineDeadError,
        keep: Collection[int] = (),
    ) -> tuple[IterationStats, list[Finished]]:
        """Ends every request with an error for its client; the engine is gone.

        Completions in `keep` stay as they are.
        """
        open_requests: dict[ClientRequest, None] = {}
        for request_id, completion in list(self._completions.items()):
            if request_id in keep:
                continue
            del self._completions[request_id]
            if completion.is_open:
                completion.close(cause)  # the accounting keeps the cause
                open_requests[completion.request] = None
        iteration, events = self.accounting.end_all(cause, self._clock.now(), keep)
        for request in open_requests:
            request.deliver(error)
        return iteration, events

    def restart(self) -> list[CompletionState]:
        """Lets all completions begin again; returns them in order of arrival."""
        completions = list(self._completions.values())
        for request in self.open_requests:
            request.restart()
        self.accounting.restart(each.account for each in completions)
        return completions

    def detach(self, request: ClientRequest) -> None:
        """Lets a request move to another engine, because this one has ended."""
        for request_id in request.open_ids:
            del self._completions[request_id]
        self.accounting.detach(request.open_ids)

    def take_over(self, request: ClientRequest) -> list[CompletionState]:
        """Adds a request that another engine has released; returns what moves."""
        request.restart()
        completions = [each for each in request.completions if each.is_open]
        for each in completions:
            self._completions[each.account.request_id] = each
        self.accounting.take_over([each.account for each in completions])
        return completions

    def _take_tokens(
        self, event: NewTokens, end: Finished | None, now: int
    ) -> CompletionState | None:
        """Adds tokens to the output; returns the completion if its client gets them."""
        if (completion := self._completions.get(event.request_id)) is None:
            return None
        if event.prompt_logprobs is not None and completion.account.index == 0:
            completion.request.prompt_logprobs = list(event.prompt_logprobs) or None
        if completion.account.cause is not None:
            return None
        if completion.text is None:
            request = completion.request
            request.begin_texts(self._make_texts(request.inner, request.stop_scope))
        if (cause := completion.add_tokens(event, end)) is not None:
            self._close(completion, cause, now)
        return completion

    def _take_end(self, event: Finished, now: int) -> CompletionState | None:
        """Forgets a completion; returns it if its client was still waiting."""
        completion = self._completions.pop(event.request_id, None)
        sections = event.sections
        if sections:
            force_setattr(event, "sections", NO_SECTIONS)  # observers follow
        if completion is None:
            return None
        request = completion.request
        if isinstance(event.cause, Corrupted) or event.corrupted_by is not None:
            self._log_corruption(event, request)
        if sections:
            request.vectors = VECTORS.read(sections)
            params = sections.get(KV_TRANSFER)
            if request.kv_transfer_params is None and isinstance(params, Mapping):
                request.kv_transfer_params = dict(params)
        if not completion.is_open:
            return None
        self._close(completion, completion.on_finished(event), now)
        return completion

    def _log_corruption(self, event: Finished, request: ClientRequest) -> None:
        origin, detail = event.corrupted_by, "it was served nevertheless"
        if isinstance(event.cause, Corrupted):
            origin, detail = event.cause.origin, event.cause.detail
        name = request.inner.facts.client_id or event.request_id
        self._corruptions.log((origin or Origin.ENGINE,), f"request {name}: {detail}")

    def _close(self, completion: CompletionState, cause: FinishCause, now: int) -> None:
        completion.close(cause)
        self.accounting.client_ended(completion.account.request_id, cause, now)
