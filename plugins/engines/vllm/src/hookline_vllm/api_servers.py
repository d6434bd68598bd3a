"""The loggers of all API servers: in this process, or in a process that they share."""

import json
import logging
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hookline.config.engine import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.frontend.observing import ObserverAddress, ObserverContext, Observing
from hookline.plugins.calling import call_plugin
from hookline.plugins.kinds import OBSERVERS
from hookline_host.folders import make_private, temporary_parents
from hookline_processes.private_files import open_private
from hookline_registry import installed

STATE = "state"
"""Cause of an output with the engine's state of its time."""

_OPTION = "observer-process"
_ENGINES_OWNER = "HOOKLINE_ENGINES_OWNER"
_PAGES = "hookline_server.observer_pages:ObserverPages"
_WAIT_SECONDS = 300.0
_LOOK_SECONDS = 0.1
_log = logging.getLogger("vllm.hookline")


@dataclass(frozen=True, slots=True)
class ApiServers:
    """The API servers of one `vllm serve`.

    Attributes:
        count: Their number.
        index: The number of the one in this process.
    """

    count: int
    index: int

    @classmethod
    def of(cls, vllm_config: Any) -> "ApiServers":
        parallel = vllm_config.parallel_config
        return cls(
            parallel._api_process_count,  # noqa: SLF001 - nothing else has it
            max(0, parallel._api_process_rank),  # noqa: SLF001
        )

    def have_process(self, config: EngineConfig) -> bool:
        """Whether the loggers have a process of their own, as several servers need.

        Raises:
            ConfigError: The configuration wants one, and no plugin provides it.
        """
        is_wanted = config.observers.observer_process
        if installed(OBSERVERS.group):
            return is_wanted or self.count > 1
        if is_wanted:
            raise ConfigError(_OPTION, "needs the distribution hookline-observer")
        if self.count > 1:
            _log.warning(
                "hookline: each of %d API servers counts its own requests; with "
                "hookline-observer, one process counts all",
                self.count,
            )
        return False

    def observe(self, config: EngineConfig) -> Observing:
        """Loads the loggers; of several servers, the first starts their process.

        Raises:
            ConfigError: An option does not fit, or the process does not start.
            RegistryError: A logger is unknown or broken.
        """
        has_process = self.have_process(config)
        apart = replace(config.observers, observer_process=has_process)
        config = replace(config, observers=apart)
        if self.count > 1:  # the engines are their parent's
            os.environ[_ENGINES_OWNER] = str(os.getppid())
        if not has_process:
            return Observers(config)
        if self.index:
            return _connected(config, self._address())
        observers = _connected(config, None)
        if self.count > 1:
            assert observers.address is not None, "it is another process"
            self._tell(observers.address)
        return observers

    def sections(self, observers: Observing) -> Mapping[str, object]:
        """Returns what the engines' facts have of front ends that share a process."""
        if self.count == 1 or observers.address is None:
            return {}
        return {"front_ends": {"count": self.count, "state_cause": STATE}}

    # All of them are children of one process, which tells them nothing of ours.

    def _file(self) -> Path:
        parent = os.getppid()
        since = Path(f"/proc/{parent}/stat").read_text().rpartition(") ")[2].split()[19]
        for place in temporary_parents():
            folder = place / f"hookline-vllm-{os.geteuid()}"
            with suppress(OSError):
                make_private(folder)
                return folder / f"{parent}-{since}.json"
        raise ConfigError(_OPTION, "no folder for temporary files can be written")

    def _tell(self, address: ObserverAddress) -> None:
        key = b64encode(address.key).decode()
        file = self._file()
        written = file.with_suffix(".new")
        told = json.dumps({"folder": str(address.folder), "key": key})
        with open_private(written) as file_of_ours:
            file_of_ours.write(told.encode())
        written.rename(file)

    def _address(self) -> ObserverAddress:
        file, until = self._file(), time.monotonic() + _WAIT_SECONDS
        while not file.exists():
            if time.monotonic() > until:
                raise ConfigError(_OPTION, "the first API server has started none")
            time.sleep(_LOOK_SECONDS)
        told = json.loads(file.read_text("utf-8"))
        return ObserverAddress(Path(told["folder"]), b64decode(told["key"]), self.index)

    def forget(self) -> None:
        """Removes what the first server has told the others."""
        if self.count > 1 and not self.index:
            with suppress(OSError):
                self._file().unlink()


def _connected(config: EngineConfig, address: ObserverAddress | None) -> Observing:
    context = ObserverContext(config=config, pages=_PAGES, address=address)
    found = call_plugin(OBSERVERS, "process", context, option=_OPTION)
    return cast("Observing", found)
