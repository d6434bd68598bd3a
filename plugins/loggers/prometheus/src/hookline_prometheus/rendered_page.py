"""A rendered page and its compressed form."""

import gzip
import threading

COMPRESSION_LEVEL = 6
"""Takes milliseconds without the interpreter's lock; higher levels gain little."""


class RenderedPage:
    """A page's bytes, compressed at most once for all scrapes that share them.

    Attributes:
        text: The page as it was rendered.
    """

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._lock = threading.Lock()
        self._gzipped: bytes | None = None

    def gzipped(self) -> bytes:
        """Returns the page in gzip's format; thread-safe."""
        with self._lock:
            if self._gzipped is None:
                # Without a time, equal pages have equal bytes.
                self._gzipped = gzip.compress(self.text, COMPRESSION_LEVEL, mtime=0)
            return self._gzipped
