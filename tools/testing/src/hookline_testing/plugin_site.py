"""A folder for test plugins, discovered like installed ones."""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

_RECORDER = """
from hookline import hookimpl
from hookline_testing import RecordingLogger

logger = RecordingLogger()


@hookimpl
def create_stat_logger(context):
    return logger
"""


class PluginSite:
    """A context manager that puts the folder first on the import path.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(
        self,
        name: str,
        source: str,
        *,
        group: str = "hookline.loggers",
        attribute: str | None = None,
    ) -> None:
        """Installs `source` as module and plugin `name` of distribution `dist-NAME`.

        The entry point names the module, or an `attribute` of it.
        """
        (self._folder / f"{name}.py").write_text(source, "utf-8")
        metadata = self._folder / f"dist_{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.0\n", "utf-8"
        )
        value = f"{name}:{attribute}" if attribute else name
        entry = f"[{group}]\n{name} = {value}\n"
        (metadata / "entry_points.txt").write_text(entry, "utf-8")
        importlib.invalidate_caches()

    def install_recorder(self, name: str = "recorder") -> None:
        """Installs a stat logger that records every call."""
        self.install(name, _RECORDER)

    def calls(self, name: str = "recorder") -> list[tuple[str, object]]:
        """Returns the calls that the installed logger has recorded."""
        calls: list[tuple[str, object]] = self.module(name).logger.calls
        return calls

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(name)

    def forget(self) -> None:
        """Removes the plugins' modules, so that they are imported again."""
        below = f"{self._folder}{os.sep}"  # compared with thousands of files
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(below):
                del sys.modules[name]

    def __enter__(self) -> Self:
        sys.path.insert(0, str(self._folder))
        importlib.invalidate_caches()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.path.remove(str(self._folder))
        self.forget()
