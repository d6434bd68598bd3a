"""The options of `hookline generate` that are not the engine's."""

from hookline.sampling_params import SamplingParams
from hookline_server.cli.options.derived import number, whole
from hookline_server.cli.options.option import JSON, Kind, Option

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
        help="Prompt text. Can be repeated.",
    ),
    Option(
        flag="prompt-file",
        target="run.prompt_files",
        group=PROMPTS,
        kind=Kind.LIST,
        metavar="FILE",
        help="File whose whole text is a prompt, or - for standard input. Can be "
        "repeated.",
    ),
    JSON,
    Option(
        flag="max-tokens",
        target="sampling.max_tokens",
        group=SAMPLING,
        parse=whole,
        metavar="TOKENS",
        help="Maximum number of tokens to generate.",
        default=str(DEFAULT_MAX_TOKENS),
    ),
    Option(
        flag="n",
        target="sampling.n",
        group=SAMPLING,
        parse=whole,
        metavar="COUNT",
        help="Number of completions per prompt.",
        default=str(_DEFAULTS.n),
    ),
    Option(
        flag="temperature",
        target="sampling.temperature",
        group=SAMPLING,
        parse=number,
        metavar="NUMBER",
        help="Sampling temperature; 0 is greedy.",
        default=f"the model's, else {_DEFAULTS.temperature:g}",
    ),
    Option(
        flag="top-p",
        target="sampling.top_p",
        group=SAMPLING,
        parse=number,
        metavar="PROBABILITY",
        help="Cumulative probability of the most likely tokens to sample from.",
        default=f"the model's, else {_DEFAULTS.top_p:g}",
    ),
    Option(
        flag="top-k",
        target="sampling.top_k",
        group=SAMPLING,
        parse=whole,
        metavar="COUNT",
        help="Number of the most likely tokens to sample from.",
        default="the model's, else all",
    ),
    Option(
        flag="stop",
        target="sampling.stop",
        group=SAMPLING,
        kind=Kind.LIST,
        metavar="TEXT",
        help="Text that ends a completion. Can be repeated.",
    ),
    Option(
        flag="ignore-eos",
        target="sampling.ignore_eos",
        group=SAMPLING,
        kind=Kind.FLAG,
        help="Do not stop at the model's end-of-sequence token.",
    ),
)
