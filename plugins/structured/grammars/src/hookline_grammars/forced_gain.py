"""Whether drafts of forced text are worth verifying, in a step of many requests."""

_STEP_COST = 0.1
"""What drafts cost a step whose kernels run one by one therefore, as a part of it."""
_TOKEN_COST = 0.8
"""Cost of a verified token in a large batch, in those of a request's part of a step."""
_SMALL = 16
"""Requests that read the weights rather than compute for half of a step's time: one
more token costs little there."""
_KEPT = 0.95
"""Of what is known of earlier steps, after each one."""
_FIRST_TOKENS = 8.0
"""Tokens by which drafts are trusted before any was verified."""
_PROBE_STEPS = 64


class ForcedGain:
    """Compares what drafts of forced text are expected to bring with what they cost."""

    def __init__(self) -> None:
        """Expects that all drafts are accepted."""
        self._accepted = self._drafted = _FIRST_TOKENS
        self._num_left_out = 0

    def verified(self, accepted: int, drafted: int) -> None:
        """Takes note of a step that verified forced drafts of all its requests."""
        self._accepted = self._accepted * _KEPT + accepted
        self._drafted = self._drafted * _KEPT + drafted

    def pays(self, drafted: int, requests: int) -> bool:
        """Returns whether a step should verify drafts; it does so now and then anyway.

        Each accepted token saves its request a step.

        Args:
            drafted: Number of tokens drafted, of all requests.
            requests: Number of requests in the step.
        """
        rate = self._accepted / self._drafted
        cost = _TOKEN_COST * requests / (requests + _SMALL)
        is_worth_it = drafted * (rate - cost) >= requests * _STEP_COST
        if not is_worth_it and self._num_left_out < _PROBE_STEPS:
            self._num_left_out += 1
            return False
        self._num_left_out = 0
        return True
