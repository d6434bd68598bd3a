"""The configuration of a tokenizer, as clients may see it."""

from collections.abc import Mapping

from tokenizers import AddedToken

from hookline.tokenizer import Tokenizer

_LOCAL = ("name_or_path", "is_local", "local_files_only", "tokenizer_object")
"""Arguments of a tokenizer that tell of this machine."""


def tokenizer_info(tokenizer: Tokenizer) -> dict[str, object]:
    """Returns a tokenizer's configuration as JSON, without paths of this machine.

    Tokens are strings, as clients with a tokenizer of the server's expect them.
    """
    inner = tokenizer.inner
    kept = {
        name: _as_json(value)
        for name, value in inner.init_kwargs.items()
        if name not in _LOCAL and not name.endswith("_file") and value is not None
    }
    kept["tokenizer_class"] = type(inner).__name__
    own = tokenizer.templates
    shown = dict(own) if len(own) > 1 else next(iter(own.values()), None)
    return kept | ({"chat_template": shown} if shown else {})


def _as_json(value: object) -> object:
    if isinstance(value, AddedToken):
        return value.content
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, int) and abs(value) >= 2**63:  # no limit of the length
        return float(value)
    is_plain = value is None or isinstance(value, str | int | float)
    return value if is_plain else str(value)
