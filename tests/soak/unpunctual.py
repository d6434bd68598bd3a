"""The connector `p2p` with reports of loads that come twice, or late: for a soak test.

They do while there is a file `twice` or `late` in the folder `switches`, an option that
this connector has besides those of `p2p`.
"""

import dataclasses
import time
from pathlib import Path

import hookline_p2p
from hookline.hookspecs import hookimpl
from hookline_kv_transfer import TransferResults
from hookline_kv_transfer.context import ConnectorContext

LATE_SECONDS = 4.0


class Unpunctual:
    """A worker-side connector with unpunctual reports."""

    def __init__(self, inner: object, switches: Path) -> None:
        self._inner = inner
        self._switches = switches
        self._again: list[int] = []
        self._late: list[tuple[float, int]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def get_finished(self) -> TransferResults:
        results: TransferResults = self._inner.get_finished()  # type: ignore[attr-defined]
        loaded = [*self._again, *results.loaded]
        self._again = []
        if (self._switches / "twice").exists():
            self._again = list(results.loaded)
            loaded += results.loaded
        now = time.monotonic()
        if (self._switches / "late").exists():
            self._late += [(now + LATE_SECONDS, each) for each in results.loaded]
            loaded = []
        loaded += [each for due, each in self._late if due <= now]
        self._late = [(due, each) for due, each in self._late if due > now]
        return dataclasses.replace(results, loaded=loaded)


@hookimpl
def create_kv_connector(context: ConnectorContext) -> object:
    options = dict(context.options)
    switches = Path(str(options.pop("switches")))
    made = hookline_p2p.create_kv_connector(
        dataclasses.replace(context, options=options)
    )
    return made if context.role == "scheduler" else Unpunctual(made, switches)
