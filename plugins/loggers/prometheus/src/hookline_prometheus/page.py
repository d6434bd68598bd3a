"""The page in one format: the catalogue's families, then the process's."""

import threading

from hookline.metrics import Family, Recorder
from hookline_prometheus.exposition import MediaType
from hookline_prometheus.family_block import FamilyBlock
from hookline_prometheus.process_families import ProcessFamilies


class Page:
    """Renders a recorder's newest snapshot, reusing what has not changed.

    Scrapes that wait for the page share one rendering, for it begins after all of them.
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
        """The page as of this call, or a moment later; in any thread."""
        seen = self._begun
        with self._lock:
            if self._finished <= seen:  # what is there began before this call
                self._begun += 1
                self._bytes = self._rendered()
                self._finished = self._begun
            return self._bytes

    def _rendered(self) -> bytes:
        families = self._recorder.snapshot()
        # Blocks of families that are gone go with them.
        self._blocks = {family.name: self._block(family) for family in families}
        parts = [
            self._blocks[family.name].render(family.samples) for family in families
        ]
        # It comes last because in OpenMetrics it brings the end's mark.
        parts.append(self._process.render(self._media_type))
        return b"".join(parts)

    def _block(self, family: Family) -> FamilyBlock:
        known = self._blocks.get(family.name)
        return known or FamilyBlock(family, self._media_type)
