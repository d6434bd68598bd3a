"""Rows for slices that overlap in time: each gets one that is free."""

from hookline_insight.trace.canvas import Canvas, Track


class Lanes:
    """Rows of a kind; as many as there are slices at once.

    Attributes:
        tracks: The rows.
    """

    def __init__(self, canvas: Canvas, engine: Track, name: str) -> None:
        self._canvas, self._engine, self._name = canvas, engine, name
        self._group: Track | None = None
        self.tracks: list[Track] = []
        self._free_at: list[int | None] = []

    def claim(self, begin: int) -> int:
        """Returns the index of a row that is free from then on."""
        for index, free_at in enumerate(self._free_at):
            if free_at is not None and free_at <= begin:
                self._free_at[index] = None
                return index
        if self._group is None:
            self._group = self._canvas.track(self._engine, self._name)
        name = f"{self._name} {len(self.tracks) + 1}"
        self.tracks.append(self._canvas.track(self._engine, name, self._group))
        self._free_at.append(None)
        return len(self.tracks) - 1

    def free(self, index: int, at: int) -> None:
        """Frees a row from then on."""
        self._free_at[index] = at
