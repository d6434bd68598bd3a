"""Offline inference: `LLM` runs an engine and returns complete outputs."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from hookline.clock import SystemClock
from hookline.config.engine import EngineConfig
from hookline.engine.commands import EngineCommand, Sleep, WakeUp
from hookline.engine_setup.failure import FailureBarrier
from hookline.exceptions import (
    CommandTimeoutError,
    ConfigError,
    EngineDeadError,
    HooklineError,
)
from hookline.frontend.calls import CALL_SECONDS
from hookline.frontend.client_request import ClientRequest, Delivery
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.starting import start_front_end
from hookline.outputs import RequestOutput
from hookline.pooling import PoolingParams
from hookline.request import GenerateRequest, RequestFacts
from hookline.sampling_params import NO_SAMPLING, SamplingParams
from hookline.step import SleepLevel
from hookline.tokenizer import ChatMessage
from hookline_description.locating import located
from hookline_metrics import Family
from hookline_metrics.transfer_calls import TierReset, reset_command, tiers_of
from hookline_offline.lora_requests import Named, facts_of
from hookline_offline.pooling_output import PoolingRequestOutput, pooling_output
from hookline_offline.preparing import prepare
from hookline_offline.prompts import ParsedPrompt, Prompt, parse_prompts, per_prompt
from hookline_offline.recording import load_recorder
from hookline_offline.vllm_arguments import from_vllm

_WAIT_SECONDS = 1.0
R = TypeVar("R")


class LLM:
    """An engine for offline inference, driven by the calling thread.

    Use it as a context manager, or call `close`.

    >>> with LLM("demo", max_model_len=512) as llm:
    ...     [output] = llm.generate("def add(a, b):", SamplingParams(max_tokens=8))
    """

    def __init__(
        self, model: str = "demo", *, collect_metrics: bool = True, **options: object
    ) -> None:
        """Loads the model and the stat loggers.

        Args:
            model: Path of a model folder, name of an installed model, or id of a hub.
            collect_metrics: Whether to collect the metrics for `get_metrics`.
            **options: Any option of `hookline serve`, with underscores, such as
                `dtype="float32"`, `max_model_len=512` or
                `speculative_config={"method": "ngram"}`; also by vLLM's names.

        Raises:
            ConfigError: An option is unknown or its value is invalid.
            ModelLoadError: The model cannot be loaded or is not supported.
            RegistryError: A plugin is unknown or broken.
        """
        config = EngineConfig.from_options(model=model, **from_vllm(options))
        self._start(config, collect_metrics=collect_metrics)

    @classmethod
    def from_config(cls, config: EngineConfig, *, collect_metrics: bool = True) -> Self:
        """Loads the model and the stat loggers from a structured configuration.

        Raises:
            ConfigError: The configuration is invalid.
            ModelLoadError: The model cannot be loaded or is not supported.
            RegistryError: A plugin is unknown or broken.
        """
        llm = cls.__new__(cls)
        llm._start(config, collect_metrics=collect_metrics)  # noqa: SLF001 - our own
        return llm

    def _start(self, config: EngineConfig, *, collect_metrics: bool) -> None:
        if config.server_option:
            raise ConfigError(config.server_option, "is for servers")
        config = located(config)
        self._recorder = load_recorder(config) if collect_metrics else None
        self._front_end = start_front_end(config, self._recorder)
        self._clock = SystemClock()

    @property
    def front_end(self) -> FrontEnd:
        """The engine's front end."""
        return self._front_end

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        facts: RequestFacts | Sequence[RequestFacts] | None = None,
        lora_request: Named | Sequence[Named] = None,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Generates completions; outputs are in the order of the prompts.

        Args:
            prompts: One prompt or a list of prompts, each text, a list of token ids,
                or a dictionary with `prompt` or `prompt_token_ids`.
            sampling_params: For all prompts, or one per prompt; None uses
                `get_default_sampling_params`, with fewer tokens where they would not
                fit.
            facts: Client id, tenant, priority and the like; for all prompts, or one
                per prompt.
            lora_request: Adapter, by its name or as `LoRARequest`; likewise.
            use_tqdm: Whether to show a progress bar on standard error.

        Raises:
            RequestError: A request is invalid; no request was started.
            EngineDeadError: The engine died.
        """
        parsed = parse_prompts(prompts)
        is_silent = sampling_params is None
        params = per_prompt(
            "sampling_params",
            self.get_default_sampling_params() if is_silent else sampling_params,
            SamplingParams,
            len(parsed),
        )
        each_facts = facts_of(self, len(parsed), facts, lora_request)
        prepared = [
            prepare(self._front_end, prompt, one, who, may_be_shorter=is_silent)
            for prompt, one, who in zip(parsed, params, each_facts, strict=True)
        ]
        return self._run(parsed, prepared, use_tqdm=use_tqdm)

    def chat(
        self,
        messages: Sequence[ChatMessage] | Sequence[Sequence[ChatMessage]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        lora_request: Named | Sequence[Named] = None,
        use_tqdm: bool = True,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, object]] | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, object] | None = None,
    ) -> list[RequestOutput]:
        """Generates replies to conversations, using the model's chat template.

        Args:
            messages: One or more lists of `{"role": "user", "content": "Hi"}`.
            sampling_params: As for `generate`.
            lora_request: Likewise.
            use_tqdm: Likewise.
            add_generation_prompt: Whether the prompt begins the assistant's turn.
            continue_final_message: Whether it ends with the last message's text.
            tools: Definitions of functions, for the template to show the model.
            chat_template: Template that takes the place of the model's.
            chat_template_kwargs: Further variables of the template.

        Raises:
            RequestError: A template rejects a conversation. Others: see `generate`.
        """
        is_one = bool(messages) and isinstance(messages[0], dict)
        conversations = [messages] if is_one else messages
        render = partial(
            self._front_end.tokenizer.render_chat,
            add_generation_prompt=add_generation_prompt and not continue_final_message,
            continue_final_message=continue_final_message,
            chat_template=chat_template,
            variables={**(chat_template_kwargs or {}), "tools": tools and list(tools)},
        )
        prompts = [render(each) for each in conversations]  # type: ignore[arg-type]
        return self.generate(
            prompts, sampling_params, lora_request=lora_request, use_tqdm=use_tqdm
        )

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        *,
        facts: RequestFacts | Sequence[RequestFacts] | None = None,
        lora_request: Named | Sequence[Named] = None,
        use_tqdm: bool = True,
    ) -> list[PoolingRequestOutput]:
        """Embeds prompts; outputs are in their order.

        The engine must embed: `LLM(model, convert="embed")`, or `runner="pooling"`.

        Args:
            prompts: As for `generate`.
            pooling_params: For all prompts, or one per prompt; with the task
                `token_embed` a prompt gets one vector per token.
            facts: As for `generate`.
            lora_request: Likewise.
            use_tqdm: Whether to show a progress bar on standard error.

        Raises:
            RequestError: A request is invalid; no request was started. Or a prompt
                could not be embedded.
            EngineDeadError: The engine died.
        """
        parsed = parse_prompts(prompts)
        params = per_prompt(
            "pooling_params", pooling_params, PoolingParams, len(parsed)
        )
        facts = facts_of(self, len(parsed), facts, lora_request, "embeddings")
        prepared = [
            prepare(self._front_end, prompt, NO_SAMPLING, who, one)
            for prompt, one, who in zip(parsed, params, facts, strict=True)
        ]
        outputs = self._run(parsed, prepared, use_tqdm=use_tqdm)
        return [pooling_output(each) for each in outputs]

    encode = embed
    """vLLM's name of the method for all tasks of pooling."""

    def get_default_sampling_params(self) -> SamplingParams:
        """Returns the sampling that the model's makers, or options, recommend.

        They come from its `generation_config.json` and the options
        `generation_config` and `override_generation_config`.
        """
        values = self._front_end.facts.model.sampling.values
        return SamplingParams(**values)  # type: ignore[arg-type]

    def get_tokenizer(self) -> PreTrainedTokenizerBase:
        """Returns the model's `transformers` tokenizer."""
        return self._front_end.tokenizer.inner

    def get_metrics(self) -> tuple[Family, ...]:
        """Returns all metrics as of now, in the configured dialects.

        Raises:
            RuntimeError: Metrics are not collected.
        """
        if self._recorder is None:
            raise RuntimeError(
                "this LLM was created with collect_metrics=False, or hookline-metrics "
                "is not installed"
            )
        return self._recorder.snapshot()

    def reset_prefix_cache(
        self,
        reset_running_requests: bool = False,
        reset_connector: bool | None = None,
    ) -> bool:
        """Drops every cached prefix block that no request holds.

        Args:
            reset_running_requests: Whether running requests lose theirs, too, and are
                computed again.
            reset_connector: Whether a KV connector's tiers are emptied: also those
                that other engines share if true, none if false, and by default those
                that no other engine can use.

        Returns:
            Whether all that was asked for has been dropped.
        """
        command = reset_command(
            reset_running_requests=reset_running_requests, external=reset_connector
        )
        return TierReset.FAILED not in tiers_of(self.call(command)).values()

    def sleep(self, level: int = 1) -> None:
        """Releases the memory of the KV cache, at level 2 also that of the weights.

        Raises:
            ValueError: The level is unknown.
            CommandError: The engine cannot sleep.
        """
        self.call(Sleep(SleepLevel(level)))

    def wake_up(self) -> None:
        """Allocates the memory that `sleep` released; the prefix cache is empty."""
        self.call(WakeUp())

    def call(
        self, command: EngineCommand[R], *, timeout_seconds: float = CALL_SECONDS
    ) -> tuple[R, ...]:
        """Sends a command to the engine, or to each of several; returns the replies.

        Raises:
            CommandError: An engine refused the command.
            CommandTimeoutError: A reply did not come in time.
            EngineDeadError: An engine died, or all were dead.
        """
        replies = self._front_end.call(command)
        deadline = time.monotonic() + timeout_seconds
        try:
            with FailureBarrier(self._front_end.fail):
                while not all(reply.done() for reply in replies):
                    if (left := deadline - time.monotonic()) <= 0:
                        break
                    self._take(left)
            return tuple([reply.result(timeout=0) for reply in replies])
        except TimeoutError:
            name = type(command).__name__
            raise CommandTimeoutError(name, timeout_seconds) from None
        finally:
            self._front_end.abandon(replies)

    def flush(self, timeout_seconds: float = 5.0) -> bool:
        """Waits until the stat loggers have received all events so far."""
        return self._front_end.observers.flush(timeout_seconds)

    def close(self) -> None:
        """Stops the engine and frees its resources; may be called twice."""
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
        self,
        prompts: Sequence[ParsedPrompt],
        prepared: Sequence[GenerateRequest],
        *,
        use_tqdm: bool,
    ) -> list[RequestOutput]:
        results: dict[int, RequestOutput] = {}
        errors: list[HooklineError] = []
        bar = tqdm(total=len(prepared), unit="req", disable=not use_tqdm)

        def deliver(index: int, delivery: Delivery) -> None:
            if isinstance(delivery, RequestOutput):
                results[index] = delivery
            else:
                errors.append(delivery)
            bar.update()

        requests: list[ClientRequest] = []
        try:
            with FailureBarrier(self._front_end.fail):
                for index, ready in enumerate(prepared):
                    request = self._front_end.submit(
                        ready,
                        partial(deliver, index),
                        arrived_at=self._clock.now(),
                        is_streamed=False,
                        prompt=prompts[index].text,
                    )
                    requests.append(request)
                while self._front_end.engines.num_unconfirmed:
                    self._take(_WAIT_SECONDS)
        finally:
            bar.close()
            for request in requests:
                self._front_end.abort(request, "interrupted")
        if self._front_end.engines.failure is not None:
            raise EngineDeadError(self._front_end.engines.failure)
        if errors:  # one of several engines died
            raise errors[0]
        return [results[index] for index in range(len(prepared))]

    def _take(self, timeout_seconds: float) -> None:
        received = self._front_end.engines.client.receive(timeout_seconds)
        if received is not None:
            self._front_end.on_message(received)
