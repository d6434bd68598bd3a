"""The exceptions that Hookline raises, with their details as attributes."""

from typing import ClassVar


class HooklineError(Exception):
    """Base class of all exceptions that Hookline raises."""


class ConfigError(HooklineError):
    """An invalid option or combination of options.

    Attributes:
        option: Name of the option, without leading dashes.
        detail: Description of the error.
    """

    def __init__(self, option: str, detail: str) -> None:
        super().__init__(f"{option}: {detail}")
        self.option = option
        self.detail = detail


class ModelLoadError(HooklineError):
    """A model that is missing, damaged or not supported.

    Attributes:
        model: The model's path or name.
        reason: Why it cannot be loaded.
    """

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"cannot load model {model!r}: {reason}")
        self.model = model
        self.reason = reason


class RequestError(HooklineError):
    """An invalid request; other requests are not affected.

    Attributes:
        param: Name of the invalid field in the client's request, or None.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class LimitError(RequestError):
    """A request that exceeds one of the limits in `hookline.request_limits`.

    Attributes:
        limit: Name of the limit in metrics.
        most: Maximum number.
    """

    def __init__(
        self, limit: str, most: int, what: str, number: int, *, param: str | None
    ) -> None:
        subject = "the request" if param is None else param
        super().__init__(
            f"{subject} has {number} {what}, and at most {most} are allowed",
            param=param,
        )
        self.limit = limit
        self.most = most


class PromptTooLongError(RequestError):
    """A prompt that does not fit into the model's context together with its output.

    Attributes:
        prompt_tokens: Number of prompt tokens, or the least that it can be.
        max_tokens: Requested output tokens, or None if not specified.
        max_model_len: The context length.
    """

    def __init__(
        self,
        prompt_tokens: int,
        max_model_len: int,
        *,
        max_tokens: int | None = None,
        is_minimum: bool = False,
        is_embedded: bool = False,
    ) -> None:
        prompt = f"at least {prompt_tokens}" if is_minimum else str(prompt_tokens)
        if is_embedded:
            param, detail = "input", f"an input has {prompt} tokens"
        elif max_tokens is None or prompt_tokens >= max_model_len:
            param = "prompt"
            detail = (
                f"the prompt is too long: it has {prompt} tokens, and must leave room "
                "for at least one token to generate"
            )
        else:
            param = "max_tokens"
            detail = (
                f"you requested {prompt_tokens + max_tokens} tokens ({prompt} in the "
                f"prompt, {max_tokens} in the completion)"
            )
        # Gateways recognize the first sentence, which is that of OpenAI, and others
        # "prompt is too long", as Anthropic says it.
        super().__init__(
            f"This model's maximum context length is {max_model_len} tokens. However, "
            f"{detail}. Please reduce the length of the "
            + ("input." if is_embedded else "prompt or of the completion."),
            param=param,
        )
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.max_model_len = max_model_len


class ChatTemplateError(RequestError):
    """Messages that the model's chat template rejects.

    Attributes:
        summary: The error without the template's own words, which may quote messages.
    """

    def __init__(self, detail: str) -> None:
        self.summary = "the chat template rejects the messages"
        super().__init__(f"{self.summary}: {detail}", param="messages")


class RefusedError(RequestError):
    """A request that an engine refuses once it has it.

    Attributes:
        kind: That of `Rejected`.
    """

    def __init__(self, kind: str, reason: str, param: str | None = None) -> None:
        super().__init__(reason, param=param)
        self.kind = kind


class GrammarError(RefusedError):
    """A structured output whose grammar cannot be compiled or is not supported."""

    KIND: ClassVar = "invalid_grammar"

    def __init__(self, reason: str) -> None:
        super().__init__(self.KIND, reason, param="structured_outputs")


class OverloadedError(RequestError):
    """The server's limit of open requests is reached; try again later.

    Attributes:
        limit: Maximum number of open completions.
        retry_after_seconds: Estimated time until the queue has been served.
    """

    def __init__(self, limit: int, retry_after_seconds: int = 1) -> None:
        super().__init__(self._message(limit))
        self.limit = limit
        self.retry_after_seconds = retry_after_seconds

    def _message(self, limit: int) -> str:
        return f"{limit} completions are open already; try again later"


class QueuedTokensError(OverloadedError):
    """The prompts that wait in the server's queue are too long together.

    Attributes:
        limit: Maximum number of waiting prompt tokens.
    """

    def _message(self, limit: int) -> str:
        return f"prompts of {limit} tokens are waiting already; try again later"


class EngineSleepingError(RequestError):
    """The engine sleeps, and is configured to refuse requests until it wakes up."""

    def __init__(self) -> None:
        super().__init__("the engine is sleeping; try again after its wake-up")


class EngineDeadError(HooklineError):
    """The engine has failed or was stopped; it cannot serve requests any more.

    Attributes:
        reason: Why the engine ended.
    """

    _state = "is not running"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the engine {self._state}: {reason}")
        self.reason = reason


class RankError(HooklineError):
    """A rank of a model's worker processes has ended, or does not answer.

    Attributes:
        rank: Index of that rank.
        reason: Why, in one clause.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"rank {rank}: {reason}")
        self.rank = rank
        self.reason = reason


class EngineStalledError(EngineDeadError):
    """The engine lives but does not answer at present; try again later."""

    _state = "has stalled"


class EngineRestartingError(EngineDeadError):
    """The engine's process is being replaced; try again later."""

    _state = "is being restarted"


class CommandError(HooklineError):
    """An engine refused a command; its requests are not affected.

    Attributes:
        command: The command's name.
        reason: Why.
    """

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command} failed: {reason}")
        self.command = command
        self.reason = reason


class CommandTimeoutError(CommandError):
    """An engine did not reply in time; it may still carry out the command.

    Attributes:
        timeout_seconds: How long the caller waited.
    """

    def __init__(self, command: str, timeout_seconds: float) -> None:
        super().__init__(command, f"no reply within {timeout_seconds:g} s")
        self.timeout_seconds = timeout_seconds


class SchemaVersionError(HooklineError):
    """Data of another version of Hookline's structs.

    Attributes:
        source: A process or a file.
        found: Its schema version.
        expected: This process's schema version.
    """

    def __init__(self, source: str, found: int, expected: int) -> None:
        super().__init__(
            f"{source} has schema version {found}, this process has {expected}: use "
            f"the same version of Hookline for both"
        )
        self.source = source
        self.found = found
        self.expected = expected


def __getattr__(name: str) -> object:
    from hookline.moved_modules import moved_name  # noqa: PLC0415 - no engine needs it

    return moved_name(__name__, name)
