"""Options of the parsers of replies."""

from dataclasses import dataclass, field

from hookline.config.options import option
from hookline.exceptions import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySettings:
    """Which parsers read the replies of chats."""

    tool_call_parser: str | None = field(
        default=None,
        metadata=option(
            "Parser that finds calls of tools in replies: the name of an installed "
            "plugin, such as hermes.",
            metavar="NAME",
        ),
    )
    enable_auto_tool_choice: bool | None = field(
        default=None,
        metadata=option(
            "Let models choose whether to call tools; requires --tool-call-parser.",
            shown_default="on with --tool-call-parser",
        ),
    )
    reasoning_parser: str | None = field(
        default=None,
        metadata=option(
            "Parser that separates reasoning and content of replies: the name of an "
            "installed plugin, such as qwen3.",
            metavar="NAME",
        ),
    )

    def __post_init__(self) -> None:
        if self.enable_auto_tool_choice and self.tool_call_parser is None:
            raise ConfigError("enable-auto-tool-choice", "requires tool-call-parser")
