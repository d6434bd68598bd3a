"""Where `hookline bench serve` writes its result."""

from dataclasses import dataclass

from hookline.config.options import option
from hookline_bench.values import pair


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSettings:
    """Options of the result files."""

    output_json: str | None = option(
        "File that the result is written to as JSON, with the measurements of each "
        "request.",
        default=None,
        metavar="FILE",
    )
    save_result: bool = option("Write the result to a JSON file.", default=False)
    save_detailed: bool = option(
        "Write the result with the measurements of each request.", default=False
    )
    result_dir: str = option(
        "Folder of the file.",
        default=".",
        metavar="FOLDER",
        shown_default="the current folder",
    )
    result_filename: str | None = option(
        "Name of the file.",
        default=None,
        metavar="NAME",
        shown_default="made of label, rate, concurrency, model and time",
    )
    label: str | None = option(
        "Label of the run.", default=None, metavar="TEXT", shown_default="the backend"
    )
    metadata: dict[str, str] = option(
        "Additional field of the file.", default_factory=dict, read=pair
    )
