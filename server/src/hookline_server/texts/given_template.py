"""The chat template that an operator gives, looked at before the model loads."""

import os

from hookline.exceptions import ConfigError
from hookline_processes.tokenizer_texts import template_source

_OPTION = "chat-template"
_SUFFIXES = (".jinja", ".jinja2", ".j2")


def check_given_template(given: str | None) -> None:
    """Checks a template that is a file or a text.

    Names of the model's templates are known when its tokenizer has been read.

    Args:
        given: The option's value.

    Raises:
        ConfigError: The file cannot be read, or the template is none.
    """
    if given is None:
        return
    try:
        source = template_source(given, {})
    except ValueError as error:
        if not _is_path(given):
            return
        cause = error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else str(cause)
        raise ConfigError(_OPTION, f"{given} cannot be read: {reason}") from error
    from hookline_server.texts.chat_template import syntax_error  # noqa: PLC0415 - jinja

    if (wrong := syntax_error(source)) is not None:
        named = given if source != given else "the template"
        raise ConfigError(_OPTION, f"{named} is no Jinja template: {wrong}")


def _is_path(given: str) -> bool:
    return "/" in given or given.endswith(_SUFFIXES) or os.path.exists(given)  # noqa: PTH110
