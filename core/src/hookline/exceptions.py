"""The errors that Hookline raises, each with its facts as attributes."""


class HooklineError(Exception):
    """Root of every error that Hookline raises on purpose."""


class ConfigError(HooklineError):
    """An option, or a combination of options, that cannot work.

    Attributes:
        option: The option's name as users type it, without dashes in front.
        detail: What is wrong with it.
    """

    def __init__(self, option: str, detail: str) -> None:
        super().__init__(f"{option}: {detail}")
        self.option = option
        self.detail = detail


class ModelLoadError(HooklineError):
    """A model that is missing, damaged, or of a kind that cannot be served.

    Attributes:
        model: What the user asked for.
        reason: Why it was refused.
    """

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(f"cannot load model {model!r}: {reason}")
        self.model = model
        self.reason = reason


class RequestError(HooklineError):
    """A request that is refused; nothing else is disturbed.

    Attributes:
        param: The offending field, as the client spelt it, or None.
    """

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class PromptTooLongError(RequestError):
    """A prompt that does not fit the model's context together with its output.

    Attributes:
        prompt_tokens: Length of the prompt.
        max_tokens: Tokens asked for, or None where none were named.
        max_model_len: The context length.
    """

    def __init__(
        self, prompt_tokens: int, max_model_len: int, *, max_tokens: int | None = None
    ) -> None:
        if max_tokens is None or prompt_tokens >= max_model_len:
            detail = "must leave room for at least one token"
        else:
            detail = f"with {max_tokens} tokens to generate does not fit"
        super().__init__(
            f"the prompt has {prompt_tokens} tokens and the model's context length is "
            f"{max_model_len}: the prompt {detail}",
            param="prompt" if max_tokens is None else "max_tokens",
        )
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.max_model_len = max_model_len


class OverloadedError(RequestError):
    """More requests are open than the server is willing to keep; try again later.

    Attributes:
        limit: Completions that may be open at once.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} completions are open already; try again later")
        self.limit = limit


class EngineDeadError(HooklineError):
    """The engine has failed or was stopped; no request can be served any more.

    Attributes:
        reason: What is known about the end.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the engine is not running: {reason}")
        self.reason = reason
