"""Where `hookline bench serve` writes its result."""

from dataclasses import dataclass, field

from hookline.config.options import option
from hookline_bench.values import pair


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSettings:
    """Options of the result files."""

    output_json: str | None = field(
        default=None,
        metadata=option(
            "File that the result is written to as JSON, with the measurements of each "
            "request.",
            metavar="FILE",
        ),
    )
    save_result: bool = field(
        default=False, metadata=option("Write the result to a JSON file.")
    )
    save_detailed: bool = field(
        default=False,
        metadata=option("Write the result with the measurements of each request."),
    )
    result_dir: str = field(
        default=".",
        metadata=option(
            "Folder of the file.",
            metavar="FOLDER",
            shown_default="the current folder",
        ),
    )
    result_filename: str | None = field(
        default=None,
        metadata=option(
            "Name of the file.",
            metavar="NAME",
            shown_default="made of label, rate, concurrency, model and time",
        ),
    )
    label: str | None = field(
        default=None,
        metadata=option(
            "Label of the run.", metavar="TEXT", shown_default="the backend"
        ),
    )
    metadata: dict[str, str] = field(
        default_factory=dict,
        metadata=option("Additional field of the file.", read=pair),
    )
