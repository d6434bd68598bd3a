"""Extension `pooling`: embeds prompts by pooling their hidden states."""

from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext, ExtensionFacts


@hookimpl
def create_extension(context: ExtensionContext) -> object | None:
    """Makes the extension; None if the engine does not embed after all.

    Raises:
        ConfigError: Options do not fit each other or the model.
        ModelLoadError: The model's folder is damaged, or has a pooling that is not
            supported.
    """
    from hookline_pooling.extension import PoolingExtension  # noqa: PLC0415
    from hookline_pooling.sentence import pooling_facts  # noqa: PLC0415

    facts = pooling_facts(context.config, context.options)
    return None if facts is None else PoolingExtension(facts)


@hookimpl
def create_extension_facts(context: ExtensionFacts) -> object:
    """Returns the facts of an engine that embeds."""
    import msgspec  # noqa: PLC0415

    from hookline_pooling.facts import PoolingFacts  # noqa: PLC0415

    return msgspec.convert(context.section, PoolingFacts)
