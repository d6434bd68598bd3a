"""Options of the parsers of replies."""

from collections.abc import Mapping
from dataclasses import dataclass

from hookline.config.options import option
from hookline.exceptions import ConfigError, RequestError
from hookline_server.protocol.template_variables import check_arguments

DEFAULTS_OPTION = "default-chat-template-kwargs"

TemplateArguments = Mapping[str, object]


def checked_arguments(given: TemplateArguments) -> TemplateArguments:
    """Returns a template's arguments; raises `ConfigError` if one is wrong."""
    try:
        check_arguments(given, DEFAULTS_OPTION)
    except (RequestError, TypeError) as error:
        raise ConfigError(DEFAULTS_OPTION, str(error)) from error
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySettings:
    """Which parsers read the replies to chats."""

    tool_call_parser: str | None = option(
        "Parser that finds calls of tools in replies: the name of an installed "
        "plugin, such as hermes.",
        default=None,
        metavar="NAME",
    )
    enable_auto_tool_choice: bool | None = option(
        "Let models choose whether to call tools; requires --tool-call-parser.",
        default=None,
        shown_default="on with --tool-call-parser",
    )
    reasoning_parser: str | None = option(
        "Parser that separates reasoning and content of replies: the name of an "
        "installed plugin, such as qwen3.",
        default=None,
        metavar="NAME",
    )

    default_chat_template_kwargs: TemplateArguments | None = option(
        "Variables of the chat template for requests that do not set them, such as "
        '{"enable_thinking": false}.',
        default=None,
        metavar="JSON",
        shown_default="none",
        read_mapping=checked_arguments,
    )

    trust_request_chat_template: bool = option(
        "Use the chat templates of requests that have one. A template can take as "
        "much time and memory as its limits allow.",
        default=False,
    )

    def __post_init__(self) -> None:
        if self.enable_auto_tool_choice and self.tool_call_parser is None:
            raise ConfigError("enable-auto-tool-choice", "requires tool-call-parser")
