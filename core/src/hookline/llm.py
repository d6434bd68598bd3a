"""Offline inference: many prompts in, all completions out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from tqdm import tqdm

from hookline.clock import SystemClock
from hookline.config import EngineConfig, ModelConfig
from hookline.config.kv_events import KVEventsConfig
from hookline.core.failure import FailureBarrier
from hookline.exceptions import EngineDeadError, RequestError
from hookline.frontend.client_request import ClientRequest, Deliver, News
from hookline.frontend.front_end import FrontEnd, start_front_end
from hookline.frontend.input_processor import PreparedRequest
from hookline.kv_transfer import KVTransferConfig
from hookline.metrics import Family, Recorder
from hookline.outputs import RequestOutput
from hookline.request import RequestFacts
from hookline.sampling_params import SamplingParams
from hookline.spec_decode import SpeculativeConfig
from hookline.tokenizer import ChatMessage

Prompt = str | Sequence[int]
_WAIT_SECONDS = 1.0
T = TypeVar("T")


class LLM:
    """An engine for this thread; use it as a context manager, or `close` it.

    >>> with LLM("demo") as llm:
    ...     [output] = llm.generate("def add(a, b):", SamplingParams(max_tokens=8))
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        config: EngineConfig | None = None,
        speculative_config: Mapping[str, object] | None = None,
        kv_transfer_config: Mapping[str, object] | None = None,
        kv_events_config: Mapping[str, object] | None = None,
        collect_metrics: bool = True,
    ) -> None:
        """Loads a model and its loggers.

        Args:
            model: Shorthand for a configuration that names just the model.
            config: Everything else; give one of the two.
            speculative_config: How to speculate, as `--speculative-config` says it.
            kv_transfer_config: How to move KV, as `--kv-transfer-config` says it.
            kv_events_config: How to publish changes of the prefix cache, as
                `--kv-events-config` says it.
            collect_metrics: Keep what `get_metrics` tells.

        Raises:
            ConfigError: An option does not fit.
            ModelLoadError: The model cannot be loaded or served.
            RegistryError: A plugin is unknown or broken.
        """
        if config is None:
            config = EngineConfig(model=ModelConfig(model=model or "demo"))
        elif model is not None:
            raise TypeError("give either model or config")
        if speculative_config is not None:
            speculative = SpeculativeConfig.from_mapping(speculative_config)
            config = replace(config, speculative=speculative)
        if kv_transfer_config is not None:
            transfer = KVTransferConfig.from_mapping(kv_transfer_config)
            config = replace(config, kv_transfer=transfer)
        if kv_events_config is not None:
            events = KVEventsConfig.from_mapping(kv_events_config)
            config = replace(config, kv_events=events)
        self._recorder = Recorder(config) if collect_metrics else None
        self._front_end = start_front_end(config, self._recorder)
        self._clock = SystemClock()

    @property
    def front_end(self) -> FrontEnd:
        """The engine's front end: its facts, its state, its loggers."""
        return self._front_end

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        facts: RequestFacts | Sequence[RequestFacts] | None = None,
        show_progress: bool = False,
    ) -> list[RequestOutput]:
        """Completes each prompt; outputs come in the order of the prompts.

        Args:
            prompts: Texts or token ids; one alone is a list of one.
            params: For all, or one each.
            facts: Who asks: for all, or one each.
            show_progress: Draw a progress bar on standard error.

        Raises:
            RequestError: A request cannot be served; none was started.
            EngineDeadError: The engine died.
        """
        many = _as_list(prompts)
        each_params = _spread("params", params or SamplingParams(), len(many))
        each_facts = _spread("facts", facts or RequestFacts(), len(many))
        prepared = [
            self._front_end.prepare(prompt, one, facts=who)
            for prompt, one, who in zip(many, each_params, each_facts, strict=True)
        ]
        return self._run(prepared, show_progress=show_progress)

    def chat(
        self,
        conversations: Sequence[ChatMessage] | Sequence[Sequence[ChatMessage]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        show_progress: bool = False,
    ) -> list[RequestOutput]:
        """Answers each conversation, through the model's chat template.

        Raises:
            RequestError: The template refuses a conversation, or see `generate`.
        """
        one = bool(conversations) and isinstance(conversations[0], dict)
        many = [conversations] if one else conversations
        render = self._front_end.tokenizer.render_chat
        prompts = [render(messages) for messages in many]  # type: ignore[arg-type]
        return self.generate(prompts, params, show_progress=show_progress)

    def get_metrics(self) -> tuple[Family, ...]:
        """Every metric as of now, in the dialects that the configuration names.

        Raises:
            RuntimeError: Metrics are not collected.
        """
        if self._recorder is None:
            raise RuntimeError("this LLM was made with collect_metrics=False")
        return self._recorder.snapshot()

    def reset_prefix_cache(self) -> None:
        """Forgets every reusable prefix before the next step."""
        self._front_end.reset_prefix_cache()

    def flush(self, timeout_seconds: float = 5.0) -> bool:
        """Waits until the loggers have heard of everything so far."""
        return self._front_end.flush(timeout_seconds)

    def close(self) -> None:
        self._front_end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(
        self, prepared: Sequence[PreparedRequest], *, show_progress: bool
    ) -> list[RequestOutput]:
        results: dict[int, RequestOutput] = {}
        bar = tqdm(total=len(prepared), unit="req", disable=not show_progress)

        def deliver(index: int, news: News) -> None:
            if isinstance(news, RequestOutput):
                results[index] = news
            bar.update()

        requests: list[ClientRequest] = []
        try:
            with FailureBarrier(self._front_end.fail):
                for index, ready in enumerate(prepared):
                    requests.append(self._submit(ready, partial(deliver, index)))
                self._drive()
        finally:
            bar.close()
            for request in requests:
                self._front_end.abort(request, "interrupted")
        if self._front_end.failure is not None:
            raise EngineDeadError(self._front_end.failure)
        return [results[index] for index in range(len(prepared))]

    def _submit(self, prepared: PreparedRequest, deliver: Deliver) -> ClientRequest:
        return self._front_end.submit(
            prepared, deliver, arrived_at=self._clock.now(), is_streamed=False
        )

    def _drive(self) -> None:
        """Takes outputs in until every request has ended."""
        while self._front_end.num_unconfirmed:
            output = self._front_end.client.receive(_WAIT_SECONDS)
            if output is not None:
                self._front_end.take(output)


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str):
        return [prompts]
    if prompts and isinstance(prompts[0], int):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def _spread(name: str, given: T | Sequence[T], count: int) -> list[T]:
    if not isinstance(given, Sequence):
        return [given] * count
    if len(given) != count:
        message = f"{len(given)} {name} were given for {count} prompts"
        raise RequestError(message, param=name)
    return list(given)
