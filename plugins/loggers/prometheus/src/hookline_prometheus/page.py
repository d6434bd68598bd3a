"""The metrics page in one format: the catalogue, then the process families."""

import threading
from collections.abc import Iterable

from hookline_metrics import Family, Recorder
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.family_block import FamilyBlock
from hookline_prometheus.family_message import FamilyMessage
from hookline_prometheus.name_selection import Names, has_family
from hookline_prometheus.options import Options
from hookline_prometheus.process_families import ProcessFamilies
from hookline_prometheus.rendered_page import RenderedPage


class Page:
    """Renders a recorder's latest snapshot, reusing unchanged families.

    Scrapes that wait for the lock share one rendering that begins after all of them.
    """

    def __init__(
        self,
        media_type: MediaType,
        recorder: Recorder,
        process: ProcessFamilies,
        options: Options,
    ) -> None:
        self._media_type = media_type
        self._options = options
        self._recorder = recorder
        self._process = process
        self._lock = threading.Lock()
        self._blocks: dict[str, FamilyBlock | FamilyMessage] = {}
        self._begun = 0
        self._finished = 0
        self._page = RenderedPage(b"")

    def render(self) -> RenderedPage:
        """Renders the page from a snapshot taken after the call; thread-safe."""
        seen = self._begun
        with self._lock:
            if self._finished <= seen:  # the cached page began before this call
                self._begun += 1
                self._page = self._rendered()
                self._finished = self._begun
            return self._page

    def select(self, names: Names) -> RenderedPage:
        """Renders the selected families, as they are on the whole page; thread-safe."""
        with self._lock:
            families = self._families()
            chosen = [family for family in families if has_family(names, family)]
            process = self._process.select(self._media_type, names)
            return self._joined(chosen, process)

    def _rendered(self) -> RenderedPage:
        families = self._families()
        return self._joined(families, self._process.render(self._media_type))

    def _families(self) -> Iterable[Family]:
        is_protobuf = self._media_type is MediaType.PROTOBUF
        families = self._recorder.snapshot(with_native=is_protobuf)
        # Drops blocks of families that have disappeared.
        self._blocks = {family.name: self._block(family) for family in families}
        return families

    def _joined(self, families: Iterable[Family], process: bytes) -> RenderedPage:
        parts = [
            self._blocks[family.name].render(family.samples) for family in families
        ]
        # The process's families are last: they end with OpenMetrics' `# EOF`.
        return RenderedPage(b"".join((*parts, process)))

    def _block(self, family: Family) -> FamilyBlock | FamilyMessage:
        known = self._blocks.get(family.name)
        if known is not None:
            return known
        if self._media_type is MediaType.PROTOBUF:
            return FamilyMessage(family, self._options)
        has_created = self._options.has_created_series
        return FamilyBlock(family, self._media_type, has_created=has_created)
