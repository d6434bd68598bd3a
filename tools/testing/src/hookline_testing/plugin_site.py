"""A folder into which a test installs plugins, found as installed ones are."""

import importlib
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
    """As a context: first on the import path; afterwards its modules are forgotten.

    Args:
        folder: An empty one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def install(
        self, name: str, source: str, *, group: str = "hookline.loggers"
    ) -> None:
        """Makes `source` the module and the plugin `name`, of distribution `dist-…`."""
        (self._folder / f"{name}.py").write_text(source, "utf-8")
        metadata = self._folder / f"dist_{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: dist-{name}\nVersion: 1.0\n", "utf-8"
        )
        entry = f"[{group}]\n{name} = {name}\n"
        (metadata / "entry_points.txt").write_text(entry, "utf-8")
        importlib.invalidate_caches()

    def install_recorder(self, name: str = "recorder") -> None:
        """Installs a stat logger that keeps every call."""
        self.install(name, _RECORDER)

    def calls(self, name: str = "recorder") -> list[tuple[str, object]]:
        """What the recorder was told since its module was imported."""
        calls: list[tuple[str, object]] = self.module(name).logger.calls
        return calls

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(name)

    def forget(self) -> None:
        """Lets the next import of each module start afresh."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file is not None and Path(file).is_relative_to(self._folder):
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
