"""The logger's options, as users type them."""

from hookline.exceptions import ConfigError
from hookline.metrics import DIALECTS
from hookline.payloads import LoggerContext

DEFAULT_DIALECTS = "hookline,vllm"


def read_dialects(context: LoggerContext) -> tuple[str, ...]:
    """The dialects asked for, each once, in the order given.

    Raises:
        ConfigError: An option or a dialect does not exist, or none was named.
    """
    if unknown := sorted(set(context.options) - {"dialects"}):
        raise ConfigError(
            f"{context.name}.{unknown[0]}", "no such option; there is: dialects"
        )
    text = context.options.get("dialects", DEFAULT_DIALECTS)
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if wrong := [name for name in names if name not in DIALECTS]:
        known = ", ".join(DIALECTS)
        raise ConfigError(
            f"{context.name}.dialects", f"unknown dialect {wrong[0]!r}; known: {known}"
        )
    return names
