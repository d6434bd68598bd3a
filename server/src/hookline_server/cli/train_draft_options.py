"""The options of `hookline train-draft` that are not the engine's."""

import argparse
import json
from pathlib import Path

from hookline.draft_training import TrainingSettings
from hookline_server.cli.parser import Kind, Option
from hookline_server.cli.values import whole

TRAINING = "training"

_DEFAULTS = {
    name: str(TrainingSettings.__dataclass_fields__[name].default)
    for name in ("num_speculative_tokens", "tokens", "row_tokens", "prompt_tokens")
}


def _object(text: str) -> dict[str, object]:
    """A JSON object."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return found


TRAIN_DRAFT_OPTIONS = (
    Option(
        flag="method",
        target="training.method",
        group=TRAINING,
        metavar="NAME",
        help="an installed proposer that can be trained, such as medusa",
    ),
    Option(
        flag="out",
        target="training.folder",
        group=TRAINING,
        parse=Path,
        metavar="FOLDER",
        help="where the result is written; a new or an empty folder",
    ),
    Option(
        flag="data",
        target="run.data",
        group=TRAINING,
        kind=Kind.LIST,
        metavar="FILE",
        help="a text to learn from, whose end is held out; may be repeated (default: "
        "what the model says itself)",
    ),
    Option(
        flag="continue-data",
        target="training.continues",
        group=TRAINING,
        kind=Kind.FLAG,
        help="learn from what the model says behind pieces of the data",
    ),
    Option(
        flag="num-speculative-tokens",
        target="training.num_speculative_tokens",
        group=TRAINING,
        parse=whole,
        metavar="TOKENS",
        help="drafts of a request in a step",
        default=_DEFAULTS["num_speculative_tokens"],
    ),
    Option(
        flag="tokens",
        target="training.tokens",
        group=TRAINING,
        parse=whole,
        metavar="TOKENS",
        help="to learn from, at most; a twentieth more is held out",
        default=_DEFAULTS["tokens"],
    ),
    Option(
        flag="row-tokens",
        target="training.row_tokens",
        group=TRAINING,
        parse=whole,
        metavar="TOKENS",
        help="length of the sequences to learn from",
        default=_DEFAULTS["row_tokens"],
    ),
    Option(
        flag="prompt-tokens",
        target="training.prompt_tokens",
        group=TRAINING,
        parse=whole,
        metavar="TOKENS",
        help="of a sequence that the model continues, what it is given",
        default=_DEFAULTS["prompt_tokens"],
    ),
    Option(
        flag="training-config",
        target="training.options",
        group=TRAINING,
        parse=_object,
        metavar="JSON",
        help="the method's own options",
    ),
)
