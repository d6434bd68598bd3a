"""Options that several benchmarks have."""

from functools import partial

from hookline.config.options import option

BENCHMARK = "benchmark"
PROMPTS = "prompts"

NUM_PROMPTS = partial(
    option,
    "Number of requests.",
    default=1000,
    group=PROMPTS,
    metavar="COUNT",
    minimum=1,
)
OUTPUT_JSON = partial(
    option,
    "File that the result is written to as JSON.",
    default=None,
    group="output",
    metavar="FILE",
)
DISABLE_TQDM = partial(
    option, "Do not show a progress bar.", default=False, group="output"
)
