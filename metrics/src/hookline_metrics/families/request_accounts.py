"""Accounts of finished requests by one of their facts, such as their tenant."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hookline.stats.finished_request import FinishedRequest
from hookline_metrics.buckets import BucketFamily
from hookline_metrics.families.finish_reasons import REASON, reason_of
from hookline_metrics.metric import Feature, Kind, Label, Metric, Needs, Point
from hookline_metrics.readings import Reading

Number = Callable[[FinishedRequest], float | None]


@dataclass(frozen=True, slots=True)
class RequestAccounts:
    """Makes metrics with a label that says whose each request was.

    Attributes:
        prefix: What their names begin with.
        label: The label.
        feature: What must be enabled for them.
        owner: Returns the label's value of a request.
        needs: What an engine has to tell for them.
    """

    prefix: str
    label: Label
    feature: Feature
    owner: Callable[[FinishedRequest], str]
    needs: Needs | None = None

    def finished(self, text: str) -> Metric:
        """Counts requests by the reason of their end."""
        return Metric(
            name=f"{self.prefix}_requests_finished",
            kind=Kind.COUNTER,
            unit="requests",
            help=text,
            labels=(self.label, REASON),
            feature=self.feature,
            needs=self.needs,
            value=Reading(
                FinishedRequest,
                lambda request: (((self.owner(request), reason_of(request)), 1, 1),),
            ),
        )

    def tokens(self, name: str, text: str, number: Number) -> Metric:
        """Adds up tokens of requests that an engine accepted."""
        return Metric(
            name=f"{self.prefix}_{name}_tokens",
            kind=Kind.COUNTER,
            unit="tokens",
            help=text,
            labels=(self.label,),
            feature=self.feature,
            needs=self.needs,
            value=self._reading(number),
        )

    def seconds(
        self, name: str, text: str, buckets: BucketFamily, number: Number
    ) -> Metric:
        """Observes a duration of each request that an engine accepted."""
        return Metric(
            name=f"{self.prefix}_{name}_seconds",
            kind=Kind.HISTOGRAM,
            unit="seconds",
            help=text,
            labels=(self.label,),
            buckets=buckets,
            feature=self.feature,
            needs=self.needs,
            value=self._reading(number),
        )

    def _reading(self, number: Number) -> Reading[FinishedRequest]:
        def points(request: FinishedRequest) -> Iterable[Point]:
            value = number(request)
            if value is None or not request.is_measured:
                return ()
            return (((self.owner(request),), value, 1),)

        return Reading(FinishedRequest, points)
