"""The plugins of the processors, which are listed without the import of torch."""

from importlib import import_module

from hookline.hookspecs import hookimpl


class ProcessorPlugin:
    """Imports a processor when a worker needs it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    @hookimpl
    def create_logits_processor(self, context: object) -> object:
        module = import_module(f"hookline_processors.{self._module}")
        return getattr(module, self._name)(context)


ALLOWED_TOKEN_IDS = ProcessorPlugin("allowed_token_ids", "AllowedTokenIds")
BAD_WORDS = ProcessorPlugin("bad_words", "BadWords")
LOGIT_BIAS = ProcessorPlugin("logit_bias", "LogitBias")
MIN_TOKENS = ProcessorPlugin("min_tokens", "MinTokens")
PENALTIES = ProcessorPlugin("penalties", "Penalties")
