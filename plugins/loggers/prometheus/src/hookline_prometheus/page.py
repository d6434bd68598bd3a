"""The metrics page in one format: the catalogue, then the process families."""

import threading

from hookline.metrics import Family, Recorder
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.family_block import FamilyBlock
from hookline_prometheus.process_families import ProcessFamilies


class Page:
    """Renders a recorder's latest snapshot, reusing unchanged families.

    Scrapes that wait for the lock share one rendering that begins after all of them.
    """

    def __init__(
        self, media_type: MediaType, recorder: Recorder, process: ProcessFamilies
    ) -> None:
        self._media_type = media_type
        self._recorder = recorder
        self._process = process
        self._lock = threading.Lock()
        self._blocks: dict[str, FamilyBlock] = {}
        self._begun = 0
        self._finished = 0
        self._bytes = b""

    def render(self) -> bytes:
        """Renders the page from a snapshot taken after the call; thread-safe."""
        seen = self._begun
        with self._lock:
            if self._finished <= seen:  # the cached page began before this call
                self._begun += 1
                self._bytes = self._rendered()
                self._finished = self._begun
            return self._bytes

    def _rendered(self) -> bytes:
        families = self._recorder.snapshot()
        # Drops blocks of families that have disappeared.
        self._blocks = {family.name: self._block(family) for family in families}
        parts = [
            self._blocks[family.name].render(family.samples) for family in families
        ]
        # Last, because it ends with OpenMetrics' `# EOF`.
        parts.append(self._process.render(self._media_type))
        return b"".join(parts)

    def _block(self, family: Family) -> FamilyBlock:
        known = self._blocks.get(family.name)
        return known or FamilyBlock(family, self._media_type)
