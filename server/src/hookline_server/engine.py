"""The engine interface that the server needs; `AsyncEngine` implements it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from hookline.engine.commands import EngineCommand
from hookline.finish_cause import Rejected
from hookline.front_end_parts import FrontEndPart
from hookline.frontend.observing import Observing
from hookline.frontend.stop_strings import StopScope
from hookline.frozen import EMPTY
from hookline.outputs import RequestOutput
from hookline.payloads import EngineFacts
from hookline.request import GenerateRequest, RequestFacts
from hookline_processes.fair_queue import NOBODY, Client
from hookline_server.probe import ProbeResult

R = TypeVar("R")
T = TypeVar("T")


class OpenStream(Protocol):
    """The outputs of one submitted prompt."""

    def __aiter__(self) -> AsyncIterator[RequestOutput]:
        """Yields outputs until the prompt's completions have ended.

        Raises:
            EngineDeadError: The engine died before that.
        """
        ...

    @property
    def facts(self) -> RequestFacts:
        """The request's facts, as observers get them."""
        ...

    @property
    def prompt_tokens(self) -> int:
        """Number of tokens of the prompt."""
        ...

    @property
    def output_tokens(self) -> int:
        """Number of tokens generated so far, of all its completions."""
        ...

    def scope_stops(self, scope: StopScope) -> None:
        """Limits where stop strings count; to be called before any output comes."""
        ...

    def abort(self, cause: str) -> None:
        """Ends the request early; does nothing once it has ended."""
        ...


class Texts(Protocol):
    """What turns texts and conversations of requests into tokens, and back."""

    async def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = True,
        is_prompt: bool = False,
        client: Client = NOBODY,
    ) -> list[int]:
        """Tokenizes off the event loop; texts of different clients in turn.

        Raises:
            PromptTooLongError: It is a prompt and cannot fit into the context.
            RequestError: The text is too long, not Unicode, or exceeds a limit.
            OverloadedError: Too much text is waiting.
        """
        ...

    async def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        """Detokenizes off the event loop; `RequestError` if there are too many."""
        ...

    async def render_chat(
        self,
        messages: list[dict[str, object]],
        *,
        variables: Mapping[str, object] = EMPTY,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        is_prompt: bool = True,
        client: Client = NOBODY,
    ) -> list[int]:
        """Applies the chat template and tokenizes; clients are served in turn.

        `variables` are additional template variables, such as `tools`. With
        `continue_final_message` the prompt ends with the text of the last message.
        `chat_template` replaces the model's template. With `is_prompt`, conversations
        that do not fit into the context are refused.

        Raises:
            RequestError: There is no template, or it rejects the messages.
            OverloadedError: Too much text is waiting.
        """
        ...

    @property
    def tokenizer_info(self) -> Mapping[str, object]:
        """The configuration of the tokenizer, as JSON has it."""
        ...

    @property
    def special_texts(self) -> frozenset[str]:
        """The texts of special tokens, which no grammar contains."""
        ...

    def token_text(self, token_id: int) -> str:
        """Returns the text of one token by itself."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Returns the bytes of one token; they may be part of a character."""
        ...

    async def encode_words(
        self, words: Sequence[str], client: Client = NOBODY
    ) -> tuple[tuple[int, ...], ...]:
        """Returns the token ids of words that must not be generated.

        Raises:
            RequestError: They are not Unicode, or exceed a limit.
            OverloadedError: Too much text is waiting.
        """
        ...


class ServingEngine(Protocol):
    """An engine that is shared by many requests on one event loop.

    Attributes:
        facts: The model, sizes and limits.
        model: Folder or name from which the model was loaded.
        failed: Set when the engine has died.
    """

    facts: EngineFacts
    model: str
    failed: asyncio.Event

    @property
    def texts(self) -> Texts:
        """What tokenizes, detokenizes and applies chat templates."""
        ...

    def capability(self, kind: type[T]) -> T | None:
        """Returns what an installed distribution can do with the engines.

        Args:
            kind: A Protocol, such as `EngineNumber`.

        Returns:
            An object of that kind; None if there is none.
        """
        ...

    @property
    def is_ready(self) -> bool:
        """Whether the engine accepts requests: it is neither dead nor draining."""
        ...

    @property
    def ailment(self) -> str | None:
        """Why no engine answers; None while one does, however long its queue is."""
        ...

    @property
    def is_asleep(self) -> bool:
        """Whether all engines sleep."""
        ...

    async def probe(self, timeout_seconds: float) -> tuple[ProbeResult, ...]:
        """Lets each live engine generate one token."""
        ...

    @property
    def failure(self) -> str | None:
        """Why the engine died, or None while it lives."""
        ...

    @property
    def unconfirmed_ends(self) -> Mapping[int, int]:
        """When completions ended for their clients that count as running, by id.

        Times are in ns on the system's monotonic clock.
        """
        ...

    @property
    def observers(self) -> Observing:
        """The loggers."""
        ...

    def add(
        self,
        request: GenerateRequest,
        *,
        arrived_at: int,
        is_streamed: bool = True,
        ends_at: int | None = None,
        data_parallel_rank: int | None = None,
    ) -> OpenStream:
        """Sends a request; with `is_streamed=False` it yields exactly one output.

        Args:
            request: The request.
            arrived_at: When it arrived, in ns on the system's monotonic clock.
            is_streamed: Whether its stream yields output with each step.
            ends_at: When it ends with what it has, by the reason `timeout`, on the same
                clock; None without limit.
            data_parallel_rank: Index of the engine that gets it; None for any.

        Raises:
            RequestError: The prompt or the parameters cannot be served.
            OverloadedError: Too many completions are open.
            EngineDeadError: The engine is not running.
        """
        ...

    def check_room(self, completions: int) -> None:
        """Raises `OverloadedError` if this many more completions would be too many."""
        ...

    def reject(self, facts: RequestFacts, cause: Rejected) -> RequestFacts:
        """Counts a request that was refused before it was submitted.

        Returns:
            The completed facts, as observers get them.
        """
        ...

    async def call(self, command: EngineCommand[R]) -> tuple[R, ...]:
        """Sends a command to every engine of the set and waits for the replies.

        Raises:
            CommandError: An engine refused the command, or did not reply in time.
            EngineDeadError: An engine died, or all were dead.
        """
        ...

    def report(self, read: Callable[[], FrontEndPart]) -> None:
        """Passes what `read` returns to the loggers, whenever it has changed.

        It is called once per second on the event loop and must not block.
        """
        ...

    def report_changes(self) -> None:
        """Passes on at once what has changed."""
        ...

    async def drain(self, timeout_seconds: float) -> bool:
        """Refuses new requests and waits for open ones; False if some remain."""
        ...

    async def close(self) -> None:
        """Flushes the loggers and ends the engine."""
        ...
