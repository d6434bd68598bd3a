"""Finds models that are named by a GGUF file, or by a folder with one."""

from dataclasses import replace
from pathlib import Path

from hookline.config.engine import EngineConfig
from hookline.exceptions import ModelLoadError
from hookline_description.locating import is_here
from hookline_gguf.view import described

_SUFFIX = ".gguf"


def locate(context: EngineConfig) -> EngineConfig | None:
    """Returns the configuration with folders that describe files; None without any.

    The model has the file's name in the API, and in metrics.

    Raises:
        ModelLoadError: A file is damaged or not supported.
    """
    model = context.model
    if (path := _file(model.model)) is not None:
        folder = described(model.model, path, has_tokenizer=model.tokenizer is not None)
        name = model.served_model_name or path.name.removesuffix(_SUFFIX)
        model = replace(model, model=str(folder), served_model_name=name)
    if model.tokenizer and (path := _file(model.tokenizer)) is not None:
        model = replace(model, tokenizer=str(described(model.tokenizer, path)))
    speculative, draft = context.speculative, (context.speculative or {}).get("model")
    if isinstance(draft, str) and (path := _file(draft)) is not None:
        folder = described(draft, path)
        speculative = {**(speculative or {}), "model": str(folder)}
    if model is context.model and speculative is context.speculative:
        return None
    return replace(context, model=model, speculative=speculative)


def _file(name: str) -> Path | None:
    """Returns the file that a name means; None if it means none.

    Raises:
        ModelLoadError: It means several, or one that does not exist.
    """
    path = Path(name)
    if not (name.endswith(_SUFFIX) or path.is_dir()) or is_here(name):
        return None
    from hookline_gguf.header import GgufError  # noqa: PLC0415 - it imports numpy
    from hookline_gguf.parts import model_path  # noqa: PLC0415

    try:
        found = model_path(path)
    except GgufError as error:
        raise ModelLoadError(name, str(error)) from error
    if found is None and name.endswith(_SUFFIX):
        raise ModelLoadError(name, "there is no such GGUF file")
    return found
