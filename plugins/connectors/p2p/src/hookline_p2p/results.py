"""Results that the connector's thread has for the engine's thread."""

import threading

from hookline_kv_transfer import FailedTransfer, TransferResults


class Results:
    """Collects results of one thread for another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: list[int] = []
        self._saved: list[int] = []
        self._failed: list[FailedTransfer] = []
        self._incidents: dict[str, int] = {}

    def loaded(self, transfer_id: int) -> None:
        with self._lock:
            self._loaded.append(transfer_id)

    def saved(self, transfer_id: int) -> None:
        with self._lock:
            self._saved.append(transfer_id)

    def failed(self, transfer_id: int, reason: str, num_blocks: int) -> None:
        with self._lock:
            self._failed.append(FailedTransfer(transfer_id, reason, num_blocks))

    def incident(self, reason: str, count: int = 1) -> None:
        with self._lock:
            self._incidents[reason] = self._incidents.get(reason, 0) + count

    def collect(self) -> TransferResults:
        """Returns the results since the last call."""
        with self._lock:
            taken = TransferResults(
                loaded=self._loaded,
                saved=self._saved,
                failed=self._failed,
                incidents=self._incidents,
            )
            self._loaded, self._saved, self._failed = [], [], []
            self._incidents = {}
        return taken
