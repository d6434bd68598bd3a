"""Section `sample` of the configuration, with the option `--sample-limit`."""

from dataclasses import dataclass
from typing import ClassVar

from hookline import hookimpl
from hookline.config.engine import EngineConfig
from hookline.config.options import option
from hookline.config.sections import ConfigSection
from hookline.exceptions import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleConfig(ConfigSection):
    """Whoever needs it reads it with `SampleConfig.of(config)`.

    Attributes:
        sample_limit: Most requests that may be open; None sets no limit.
    """

    key: ClassVar = "sample"
    group: ClassVar = "sample"

    sample_limit: int | None = option("Most requests that may be open.", default=None)

    def check(self, config: EngineConfig) -> None:
        """Raises `ConfigError` for what does not fit the rest."""
        del config
        if self.sample_limit is not None and self.sample_limit < 1:
            raise ConfigError("sample-limit", "must be 1 or more")


@hookimpl
def config_section() -> type[SampleConfig]:
    """Called before options are read, by every command: it should import little."""
    return SampleConfig
