"""The metrics of a request in its response."""

from msgspec import UNSET, UnsetType

from hookline.outputs import RequestOutput
from hookline_server.answers.settings import ResponseSettings, SpecDecodeMetrics
from hookline_server.protocol.request_metrics import ResponseMetrics, response_metrics

NotedMetrics = ResponseMetrics | UnsetType | None


class MetricsNote:
    """Waits for the last output of a request, which has the metrics."""

    def __init__(self, settings: ResponseSettings) -> None:
        """Starts empty; `settings` choose the metrics."""
        self._has_times = settings.enable_per_request_metrics
        spec = settings.per_request_spec_decode_metrics
        self._has_drafts = spec is not SpecDecodeMetrics.NONE
        self._is_one = True
        self._noted: ResponseMetrics | None = None

    def add_output(self, number: int, output: RequestOutput, *, n: int) -> None:
        """Takes an output of one prompt of which `n` completions were requested."""
        self._is_one = self._is_one and number == 0 and n == 1
        if output.metrics is None or not output.outputs or not self._tells:
            return
        self._noted = response_metrics(
            output.metrics,
            output.outputs[0].output_tokens,
            has_times=self._has_times,
            has_drafts=self._has_drafts,
        )

    @property
    def noted(self) -> NotedMetrics:
        """The metrics; None for several completions, UNSET if they are switched off."""
        if not self._tells:
            return UNSET
        return self._noted if self._is_one else None

    @property
    def _tells(self) -> bool:
        return self._has_times or self._has_drafts
