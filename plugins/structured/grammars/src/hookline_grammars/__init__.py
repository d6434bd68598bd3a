"""Extension `grammars`: structured outputs, with the backends that are installed."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext


@hookimpl
def create_extension(context: ExtensionContext) -> object | None:
    """Makes the extension; None if structured outputs are off or have no backend.

    Raises:
        ConfigError: An option is wrong, or the named backend is not installed, or needs
            logits.
        ModelLoadError: The model's description is missing or damaged.
    """
    from hookline_grammars.making import make_extension  # noqa: PLC0415

    return make_extension(context)
