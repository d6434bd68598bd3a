"""`hookline bench compare`: whether a change between two results is more than noise."""

from dataclasses import dataclass
from pathlib import Path

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError
from hookline_bench.comparison.changes import Judge
from hookline_bench.comparison.read_result import read_result
from hookline_bench.comparison.report import Comparison
from hookline_bench.options import OUTPUT_JSON
from hookline_bench.result_file import write_json
from hookline_server.cli.errors import UsageError
from hookline_server.cli.options.arguments import Arguments
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.parser import make_parser, parse
from hookline_server.cli.output import say

DESCRIPTION = (
    "Compares two result files of one benchmark, or two recordings of engines, A "
    "(before) and B (after). The exit status is 1 if B is worse by more than noise, "
    "and 3 if there are too few values to judge anything."
)
WORSE = 1
UNJUDGED = 3
"""Neither 0, so that no gate passes unseen, nor 2, which is for invalid options."""

_JUDGEMENT = "judgement"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings:
    """Options of the command."""

    confidence_level: float = option(
        "Probability that no metric of an unchanged system is found changed.",
        default=0.95,
        group=_JUDGEMENT,
        metavar="NUMBER",
        above=0,
    )
    min_change: float = option(
        "Percentage below which a change does not matter.",
        default=1.0,
        group=_JUDGEMENT,
        metavar="PERCENT",
        minimum=0,
    )
    metric_percentiles: tuple[float, ...] = option(
        "Percentiles to compare beside the mean.",
        default=(90.0,),
        group=_JUDGEMENT,
        metavar="NUMBER,…",
        commas=True,
    )
    num_resamples: int = option(
        "How often the requests are drawn anew.",
        default=10_000,
        group=_JUDGEMENT,
        metavar="COUNT",
        minimum=100,
    )
    seed: int = option(
        "Random seed of the draws.", default=0, group=_JUDGEMENT, minimum=0
    )
    output_json: str | None = OUTPUT_JSON()

    def __post_init__(self) -> None:
        check_options(self)
        if self.confidence_level >= 1:
            raise ConfigError("confidence-level", "must be less than 1")
        if not all(0 <= each <= 100 for each in self.metric_percentiles):
            raise ConfigError("metric-percentiles", "must be 0 to 100")

    @property
    def judge(self) -> Judge:
        """The rules of the comparison."""
        return Judge(
            confidence=self.confidence_level,
            min_change=self.min_change,
            percentages=self.metric_percentiles,
            resamples=self.num_resamples,
            seed=self.seed,
        )


COMPARE_OPTIONS = tuple(derived(CompareSettings, "bench"))


def run(argv: list[str]) -> int:
    """Compares and reports; returns 1 if the second is worse, 3 if nobody can say."""
    parser = make_parser(
        "bench compare", DESCRIPTION, COMPARE_OPTIONS, operands=["A", "B"]
    )
    given = parse(parser, argv)
    settings = Arguments(given, ()).make("bench", CompareSettings)
    first, second = (read_result(str(given[name])) for name in ("A", "B"))
    if first.benchmark is not second.benchmark:
        raise UsageError(
            f"A is {first.origin}, B {second.origin}; they have no metric in common"
        )
    changes = settings.judge.changes(first, second)
    comparison = Comparison(first=first, second=second, changes=changes)
    say("\n".join(comparison.lines()))
    if settings.output_json is not None:
        write_json(Path(settings.output_json), comparison.fields())
    if comparison.regressions:
        return WORSE
    return 0 if comparison.is_judged else UNJUDGED
