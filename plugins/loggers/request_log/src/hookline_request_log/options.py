"""The logger's options, parsed and checked before the engine starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hookline.exceptions import ConfigError
from hookline.payloads import LoggerContext
from hookline_request_log.log_file import Rotation, create_log

STANDARD_OUTPUT = "-"
DEFAULTS: Mapping[str, str] = {
    "path": STANDARD_OUTPUT,
    "max_bytes": str(100 * 2**20),
    "backups": "5",
    "rotate": "size",
    "prompts": "false",
    "max_prompt_tokens": "1000",
}
MOST_BACKUPS = 1000
OF_FILES = ("max_bytes", "backups", "rotate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Destination and content of the lines.

    Attributes:
        path: Path of the file; None for standard output.
        rotation: Rotation of the file.
        max_prompt_tokens: Maximum token ids per prompt, and per output, in a line; None
            writes none.
    """

    path: Path | None
    rotation: Rotation
    max_prompt_tokens: int | None

    @classmethod
    def read(cls, context: LoggerContext) -> Self:
        """Parses the options and creates the file.

        Raises:
            ConfigError: An option is unknown, invalid or without effect, or the file
                cannot be written.
        """
        texts = _Texts(context)
        writes_prompts = texts.choice("prompts", ("true", "false")) == "true"
        if writes_prompts and not context.config.observers.keep_prompts:
            raise texts.error("prompts", "needs --keep-prompts")
        if not writes_prompts:
            texts.refuse(("max_prompt_tokens",), "needs prompts=true")
        max_prompt_tokens = texts.number("max_prompt_tokens", least=1)
        rotation = Rotation(
            max_bytes=texts.number("max_bytes", least=1),
            backups=texts.number("backups", least=0, most=MOST_BACKUPS),
            is_hourly=texts.choice("rotate", ("size", "hourly")) == "hourly",
        )
        return cls(
            path=_path(texts),
            rotation=rotation,
            max_prompt_tokens=max_prompt_tokens if writes_prompts else None,
        )


class _Texts:
    """The text of each option, given or default."""

    def __init__(self, context: LoggerContext) -> None:
        self._name = context.name
        self._given = context.options
        if unknown := sorted(self._given.keys() - DEFAULTS.keys()):
            known = ", ".join(DEFAULTS)
            raise self.error(unknown[0], f"no such option; options: {known}")

    def error(self, key: str, detail: str) -> ConfigError:
        return ConfigError(f"{self._name}.{key}", detail)

    def text(self, key: str) -> str:
        return self._given.get(key, DEFAULTS[key])

    def refuse(self, keys: tuple[str, ...], detail: str) -> None:
        """Raises `ConfigError` if an option without effect is given."""
        for key in keys:
            if key in self._given:
                raise self.error(key, detail)

    def choice(self, key: str, known: tuple[str, ...]) -> str:
        if (text := self.text(key)) not in known:
            raise self.error(key, f"must be {' or '.join(known)}, not {text!r}")
        return text

    def number(self, key: str, *, least: int, most: int | None = None) -> int:
        text = self.text(key)
        try:
            number = int(text)
        except ValueError as error:
            raise self.error(key, f"{text!r} is not a whole number") from error
        if number < least:
            raise self.error(key, f"must be at least {least}, not {number}")
        if most is not None and number > most:
            raise self.error(key, f"must be at most {most}, not {number}")
        return number


def _path(texts: _Texts) -> Path | None:
    """Returns the file's path, absolute in case the working directory changes."""
    if (text := texts.text("path")) == STANDARD_OUTPUT:
        texts.refuse(OF_FILES, "needs a file: set path")
        return None
    if not text or "\0" in text:
        raise texts.error("path", f"{text!r} is not a path")
    path = Path(text).absolute()
    try:
        problem = create_log(path)
    except OSError as error:
        detail = f"cannot write {path}: {error.strerror}"
        raise texts.error("path", detail) from error
    if problem is not None:
        raise texts.error("path", problem)
    return path
