"""The options of `hookline generate` that are not the engine's."""

from hookline.sampling_params import SamplingParams
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import number, whole
from hookline_server.cli.version import JSON

PROMPTS = "prompts"
SAMPLING = "sampling"

DEFAULT_MAX_TOKENS = 64

_DEFAULTS = SamplingParams()

GENERATE_OPTIONS = (
    Option(
        flag="prompt",
        target="run.prompts",
        group=PROMPTS,
        kind=Kind.LIST,
        metavar="TEXT",
        help="text to continue; may be repeated",
    ),
    Option(
        flag="prompt-file",
        target="run.prompt_files",
        group=PROMPTS,
        kind=Kind.LIST,
        metavar="FILE",
        help="a file whose whole text is a prompt, - for standard input; "
        "may be repeated",
    ),
    JSON,
    Option(
        flag="max-tokens",
        target="sampling.max_tokens",
        group=SAMPLING,
        parse=whole,
        metavar="TOKENS",
        help="most tokens to generate",
        default=str(DEFAULT_MAX_TOKENS),
    ),
    Option(
        flag="n",
        target="sampling.n",
        group=SAMPLING,
        parse=whole,
        metavar="COUNT",
        help="completions of each prompt",
        default=str(_DEFAULTS.n),
    ),
    Option(
        flag="temperature",
        target="sampling.temperature",
        group=SAMPLING,
        parse=number,
        metavar="NUMBER",
        help="0 always takes the likeliest token",
        default=f"{_DEFAULTS.temperature:g}",
    ),
    Option(
        flag="top-p",
        target="sampling.top_p",
        group=SAMPLING,
        parse=number,
        metavar="MASS",
        help="sample from the likeliest tokens with this probability mass",
        default=f"{_DEFAULTS.top_p:g}",
    ),
    Option(
        flag="top-k",
        target="sampling.top_k",
        group=SAMPLING,
        parse=whole,
        metavar="COUNT",
        help="sample from so many of the likeliest tokens (default: all)",
    ),
    Option(
        flag="stop",
        target="sampling.stop",
        group=SAMPLING,
        kind=Kind.LIST,
        metavar="TEXT",
        help="text that ends a completion; may be repeated",
    ),
    Option(
        flag="ignore-eos",
        target="sampling.ignore_eos",
        group=SAMPLING,
        kind=Kind.FLAG,
        help="generate on past the model's end-of-text token",
    ),
)
