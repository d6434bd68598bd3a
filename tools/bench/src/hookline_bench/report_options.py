"""The options of `hookline bench serve` that say what is told, and where."""

from hookline_bench.options import DISABLE_TQDM
from hookline_bench.serve_numbers import LATENCY_METRICS
from hookline_bench.serve_settings import ServeSettings
from hookline_bench.values import goodput, names, numbers, pair
from hookline_server.cli.parser import Kind, Option

REPORT = "report"
RESULT = "result file"

_DEFAULTS = ServeSettings()

REPORT_OPTIONS = (
    Option(
        flag="percentile-metrics",
        target="bench.percentile_metrics",
        group=REPORT,
        parse=names,
        metavar="NAME,…",
        help=f"latencies to report, of {', '.join(LATENCY_METRICS)}",
        default=",".join(_DEFAULTS.percentile_metrics),
    ),
    Option(
        flag="metric-percentiles",
        target="bench.metric_percentiles",
        group=REPORT,
        parse=numbers,
        metavar="NUMBER,…",
        help="percentiles of each",
        default="99",
    ),
    Option(
        flag="goodput",
        target="bench.goodput",
        group=REPORT,
        kind=Kind.MAP,
        parse=goodput,
        metavar="NAME:MS",
        help="count the requests that meet objectives, such as ttft:200 tpot:30 "
        "e2el:5000",
    ),
    DISABLE_TQDM,
)

RESULT_OPTIONS = (
    Option(
        flag="save-result",
        target="bench.save_result",
        group=RESULT,
        kind=Kind.FLAG,
        help="write the result to a JSON file",
    ),
    Option(
        flag="save-detailed",
        target="bench.save_detailed",
        group=RESULT,
        kind=Kind.FLAG,
        help="write it with what is known of each request",
    ),
    Option(
        flag="result-dir",
        target="bench.result_dir",
        group=RESULT,
        metavar="FOLDER",
        help="where to",
        default="this folder",
    ),
    Option(
        flag="result-filename",
        target="bench.result_filename",
        group=RESULT,
        metavar="NAME",
        help="what it is called (default: made of label, rate, concurrency, model and "
        "time)",
    ),
    Option(
        flag="label",
        target="bench.label",
        group=RESULT,
        metavar="TEXT",
        help="names the run (default: the backend)",
    ),
    Option(
        flag="metadata",
        target="bench.metadata",
        group=RESULT,
        kind=Kind.MAP,
        parse=pair,
        metavar="KEY=VALUE",
        help="a field to put into it; may be repeated",
    ),
)
