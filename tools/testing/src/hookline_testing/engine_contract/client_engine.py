"""An engine of `hookline.engines`, behind a front end that the suite drives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.exceptions import EngineDeadError
from hookline.finish_cause import Rejected
from hookline.frontend.client_request import ClientRequest, Delivery
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.starting import start_front_end
from hookline.frozen import EMPTY
from hookline.outputs import RequestOutput
from hookline.payloads import RequestsScheduled, StateChanged
from hookline.request import FinishReason, RequestFacts
from hookline.sampling_params import SamplingParams
from hookline_metrics.engine_tells import EngineTells, declared_by
from hookline_testing.engine_contract.scenes import Case, End, Scene, Session
from hookline_testing.own_time import Deadline
from hookline_testing.recording_logger import RecordingLogger

_SECONDS = 0.05
_MOST_SECONDS = 60.0
_TOKENS = 5
_LONG = 40
"""Tokens of prompts that take several steps, and of outputs that do not end soon."""


@dataclass
class _Asked:
    """A request, and what its client has got."""

    name: str
    request: ClientRequest
    got: list[Delivery] = field(default_factory=list)
    is_left: bool = False

    @property
    def tokens(self) -> int:
        outputs = [each for each in self.got if isinstance(each, RequestOutput)]
        return sum(len(each.outputs[0].token_ids) for each in outputs)

    @property
    def end(self) -> End | None:
        """How it has ended; None before."""
        if self.is_left:
            reason = FinishReason.ABORT
        elif self.got and not isinstance(self.got[-1], RequestOutput):
            reason = FinishReason.ERROR
        else:
            reasons = [
                each.outputs[0].finish_reason
                for each in self.got
                if isinstance(each, RequestOutput)
            ]
            if not reasons or reasons[-1] is None:
                return None
            reason = FinishReason(reasons[-1])
        return End(reason, self.tokens, self.request.engine_index)


class ClientEngine:
    """Implements `EngineUnderTest` for what `--engine` and `--executor` name.

    Attributes:
        name: Its name in `hookline.engine_tells`.
        tells: What it has declared there.
        cannot: Why there are cases that it does not have.
    """

    def __init__(
        self,
        name: str,
        config: EngineConfig,
        *,
        tells: EngineTells | None = None,
        cannot: Mapping[Case, str] = EMPTY,
        is_bounded: bool = False,
    ) -> None:
        """Makes no engine yet.

        Args:
            name: Its name in `hookline.engine_tells`.
            config: A configuration with it, and with a model whose tokenizer is there;
                one request at a time and 16 tokens a step are added, unless it
                `is_bounded`.
            tells: What it declares; None reads it there.
            cannot: Why there are cases that it does not have.
            is_bounded: Whether the configuration has these two limits already, as
                those of an engine with limits of its own.
        """
        self.name = name
        self.tells = tells or declared_by(name)
        self.cannot = cannot
        scheduler = replace(config.scheduler, max_num_seqs=1, max_num_batched_tokens=16)
        self._config = config if is_bounded else replace(config, scheduler=scheduler)

    def play(self, scene: Scene) -> Session:
        """Implements `EngineUnderTest`."""
        count = 2 if scene is Scene.SEVERAL else 1
        with self._run(count) as run:
            if scene is Scene.DEATH:
                asked = run.ask(Case.DEATH, most=_LONG)
                run.until(lambda: asked.tokens > 0)
                run.die()
            elif scene is Scene.SEVERAL:
                for index in range(count):
                    run.ask(f"{Case.SEVERAL}-{index}", to=index)
                run.until_all_ended()
            else:
                self._play_requests(run)
        return Session(tuple(run.heard.calls), run.ends)

    def _play_requests(self, run: "_Run") -> None:
        cases: Mapping[Case, Callable[[], None]] = {
            Case.LENGTH: lambda: run.ask_and_wait(Case.LENGTH),
            Case.STOP: lambda: run.ask_and_wait(Case.STOP, stops=True),
            Case.ABORT_WAITING: run.leave_waiting,
            Case.ABORT_PREFILL: run.leave_in_prefill,
            Case.ABORT_DECODE: run.leave_in_decode,
            Case.TIMEOUT: lambda: run.ask_and_wait(Case.TIMEOUT, ends_soon=True),
            Case.REJECTED: run.reject,
        }
        for case, play in cases.items():
            if case not in self.cannot:
                play()
        run.until_idle()

    @contextmanager
    def _run(self, engines: int) -> Iterator["_Run"]:
        heard = RecordingLogger()
        indices = tuple(range(engines)) if engines > 1 else ()
        config = replace(self._config, server_indices=indices)
        run = _Run(start_front_end(config, heard), heard)
        try:
            yield run
        finally:
            run.front_end.close()


class _Run:
    """A front end with one or several engines, and all that it tells."""

    def __init__(self, front_end: FrontEnd, heard: RecordingLogger) -> None:
        self.front_end, self.heard = front_end, heard
        self.ends: dict[str, End] = {}
        self._asked: list[_Asked] = []
        self._clock = SystemClock()
        self._prompts = 0

    def ask(
        self,
        name: str,
        *,
        prompt: int = 4,
        most: int = _TOKENS,
        stops: bool = False,
        ends_soon: bool = False,
        to: int | None = None,
    ) -> _Asked:
        """Asks for tokens; prompts differ, so that none is found in a cache."""
        self._prompts += 1
        size = self.front_end.facts.model.vocab_size
        ids = [3 + (self._prompts * 7 + each) % (size - 3) for each in range(prompt)]
        stop = tuple(range(min(size, 1024))) if stops else ()
        params = SamplingParams(max_tokens=most, ignore_eos=True, stop_token_ids=stop)
        request = self.front_end.prepare(
            cast("Sequence[int]", ids), params, facts=RequestFacts(client_id=name)
        )
        now = self._clock.now()
        got: list[Delivery] = []
        client = self.front_end.submit(
            request,
            got.append,
            arrived_at=now,
            is_streamed=True,
            ends_at=now + 1 if ends_soon else None,
            to=to,
        )
        self._asked.append(asked := _Asked(name, client, got))
        return asked

    def ask_and_wait(
        self, name: str, *, stops: bool = False, ends_soon: bool = False
    ) -> None:
        most = _LONG if ends_soon else _TOKENS
        asked = self.ask(name, most=most, stops=stops, ends_soon=ends_soon)
        self.until(lambda: asked.end is not None)

    def leave_waiting(self) -> None:
        """Leaves while another request has the only place."""
        first = self.ask("before", most=_LONG)
        self.until(lambda: first.tokens > 0)
        self.leave(self.ask(Case.ABORT_WAITING))
        self.leave(first)

    def leave_in_prefill(self) -> None:
        """Leaves once a prompt of several steps has begun."""
        asked = self.ask(Case.ABORT_PREFILL, prompt=_LONG)
        self.until(lambda: Case.ABORT_PREFILL in self._scheduled)
        self.leave(asked)

    def leave_in_decode(self) -> None:
        asked = self.ask(Case.ABORT_DECODE, most=_LONG)
        self.until(lambda: asked.tokens > 1)
        self.leave(asked)

    def reject(self) -> None:
        facts = RequestFacts(client_id=Case.REJECTED)
        self.front_end.reject(facts, Rejected("overloaded", "too much to do"))
        self.ends[Case.REJECTED] = End(FinishReason.REJECTED, 0)

    def leave(self, asked: _Asked) -> None:
        asked.is_left = True
        self.front_end.abort(asked.request, "client")

    @property
    def _scheduled(self) -> set[str]:
        batches = [
            each for _, each in self.heard.calls if isinstance(each, RequestsScheduled)
        ]
        return {
            batch.facts[event.request_id].client_id
            for batch in batches
            for event in batch.events
        }

    def die(self) -> None:
        """Ends the engine from outside, as far as its client can."""
        self.front_end.engines.client.close()
        self.until_all_ended()

    def until_all_ended(self) -> None:
        self.until(lambda: all(each.end is not None for each in self._asked))
        self.until_idle()

    def until_idle(self) -> None:
        """Waits until a state is told in which nothing runs or waits."""
        engines = self.front_end.engines

        def is_idle() -> bool:
            states = [each for each in engines if each.failure is None]
            return all(
                not each.accounting.num_in_flight
                and not each.stats.running + each.stats.waiting
                for each in states
            )

        before = len(self.heard.calls)
        self.until(
            lambda: (
                (
                    is_idle()
                    and any(
                        isinstance(payload, StateChanged)
                        for _, payload in self.heard.calls[before:]
                    )
                )
                or engines.failure is not None
            )
        )

    def until(self, is_so: Callable[[], bool]) -> None:
        """Has the engines work until something is so."""
        deadline = Deadline(_MOST_SECONDS)
        while not is_so():
            try:
                received = self.front_end.engines.client.receive(_SECONDS)
            except EngineDeadError as error:
                self.front_end.fail(str(error))
                break
            if received is not None:
                self.front_end.on_message(received)
            assert deadline.is_ahead, "the engine does not come to it"
        for each in self._asked:
            if (end := each.end) is not None:
                self.ends[each.name] = end
