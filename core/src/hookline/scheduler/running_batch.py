"""The requests in the batch, and those that have left it since the last plan."""

from collections.abc import Iterator

from hookline.request import Request
from hookline.scheduler.oldest_request import OldestRequest


class RunningBatch:
    """Requests that hold blocks and are computed by steps, in order of admission.

    Attributes:
        num_followers: Number of requests with `is_follower`.
        oldest: The one that was queued first.
    """

    def __init__(self) -> None:
        self.num_followers = 0
        self.oldest = OldestRequest()
        self._requests: list[Request] = []
        self._released: list[int] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)

    def add(self, request: Request) -> None:
        self._requests.append(request)
        self.oldest.add(request)
        self.num_followers += request.is_follower

    def remove(self, request: Request) -> None:
        """Removes a request; the next plan releases it in the worker."""
        self._requests.remove(request)
        self.oldest.remove(request)
        self.num_followers -= request.is_follower
        self._released.append(request.request_id)

    def decodes_first(self) -> list[Request]:
        """Returns the requests: those with one token to compute before the others."""
        return sorted(self._requests, key=_is_prefilling)

    def take_released(self) -> list[int]:
        """Returns ids of requests that have left since the last call."""
        released, self._released = self._released, []
        return released


def _is_prefilling(request: Request) -> bool:
    return request.is_prefilling
