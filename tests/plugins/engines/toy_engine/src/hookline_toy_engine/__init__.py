"""An engine from outside: it repeats its prompts, and counts nothing.

Its option `shift` is added to each token; its model is nowhere in a folder.
"""

import time
from pathlib import Path

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline.engine.commands import (
    Add,
    Call,
    Command,
    EngineMessage,
    Finish,
    Reply,
    ResetPrefixCache,
    TellExtensions,
    Told,
)
from hookline.engine.engine_loop import Receive
from hookline.events import (
    ClockPair,
    Finished,
    NewTokens,
    Queued,
    Scheduled,
    StepEvents,
    StepOutput,
)
from hookline.exceptions import ConfigError
from hookline.finish_cause import FinishCause, LengthReached
from hookline.model_description import find_folder
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.step import ModelShape
from hookline.transport.engine_client import refusal

VOCAB_SIZE = 512
DIES_AT = 7
"""Length of a prompt at which the engine raises an error."""


@hookimpl
def create_engine(context: EngineConfig) -> "ToyEngine":
    return ToyEngine(context)


@hookimpl
def find_tokenizer() -> Path:
    return find_folder("demo")


class ToyEngine:
    bell: int | None = None

    def __init__(self, config: EngineConfig) -> None:
        unknown = set(config.engine_options) - {"shift"}
        if unknown or config.engine_arguments:
            raise ConfigError("engine-option", "the toy has one option: shift")
        self.shift = int(config.engine_options.get("shift", "0"))
        self.facts = EngineFacts(
            engine_index=config.engine_index,
            model_name=config.model.served_name,
            model=ModelShape(
                architecture="Toy",
                dtype="none",
                cache_dtype="none",
                vocab_size=VOCAB_SIZE,
                max_model_len=256,
                eos_token_ids=(),
            ),
            block_size=16,
            max_num_seqs=64,
            max_num_batched_tokens=64,
            enable_prefix_caching=False,
            executor="toy",
        )
        self.running: dict[int, tuple[GenerateRequest, int]] = {}
        self.events = fresh()
        self.replies: list[Reply] = []

    @property
    def has_work(self) -> bool:
        return bool(self.running)

    def clock_pair(self) -> ClockPair:
        return ClockPair(wall=time.time_ns(), monotonic=time.monotonic_ns())

    def run_once(self, receive: Receive, timeout_seconds: float) -> list[EngineMessage]:
        while (command := receive(0)) is not None:
            self.take(command)
        if not (self.running or self.replies):
            command = receive(timeout_seconds)
            if command is None:
                return [self.told("heartbeat")]
            self.take(command)
        at = time.monotonic_ns()
        for request_id, (request, given) in list(self.running.items()):
            prompt = request.prompt_token_ids
            if len(prompt) == DIES_AT:
                raise RuntimeError("the toy is broken")
            token = (prompt[given % len(prompt)] + self.shift) % VOCAB_SIZE
            self.events.new_tokens.append(NewTokens(request_id, at, [token]))
            self.running[request_id] = (request, given + 1)
            if given + 1 == request.params.max_tokens:
                self.end(request_id, LengthReached())
        replies, self.replies = self.replies, []
        return [self.told("step"), *replies]

    def take(self, command: Command) -> None:
        at = time.monotonic_ns()
        if isinstance(command, Add):
            for request in (command.request, *command.siblings()):
                each = request.request_id
                length = len(request.prompt_token_ids)
                self.events.queued.append(Queued(each, at, length))
                self.events.scheduled.append(Scheduled(each, at, 0, 0, 0, False))
                self.running[each] = (request, 0)
        elif isinstance(command, Finish):
            for request_id in command.request_ids:
                if request_id in self.running:
                    self.end(request_id, command.cause)
        else:
            self.replies.append(self.reply(command))

    def reply(self, call: Call) -> Reply:
        match call.command:
            case ResetPrefixCache():
                told = Told()
            case TellExtensions(sections={"toy": {"word": word}}):
                told = Told({"toy": {"heard": word}})
            case _:
                return refusal(call, "toy")
        return Reply(call.client, call.number, told)

    def end(self, request_id: int, cause: FinishCause) -> None:
        _, given = self.running.pop(request_id)
        ended = Finished(request_id, time.monotonic_ns(), cause, given)
        self.events.finished.append(ended)

    def told(self, cause: str) -> StepOutput:
        events, self.events = self.events, fresh()
        stats = SchedulerStats(running=len(self.running))
        index, at = self.facts.engine_index, time.monotonic_ns()
        return StepOutput(index, at, cause, stats, events=events)

    def close(self) -> None:
        pass


def fresh() -> StepEvents:
    return StepEvents(queued=[], scheduled=[], new_tokens=[], finished=[])
