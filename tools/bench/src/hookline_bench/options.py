"""Metadata of options that several benchmarks have."""

from hookline.config.options import option

BENCHMARK = "benchmark"
PROMPTS = "prompts"

NUM_PROMPTS = option("Number of requests.", group=PROMPTS, metavar="COUNT", minimum=1)
OUTPUT_JSON = option(
    "File that the result is written to as JSON.", group="output", metavar="FILE"
)
DISABLE_TQDM = option("Do not show a progress bar.", group="output")
