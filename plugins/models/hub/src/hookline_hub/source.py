"""Finds the folders of models that are named by their id of a hub."""

import logging
from dataclasses import replace
from pathlib import Path

from hookline.config.engine import EngineConfig
from hookline.config.model import LoadFormat
from hookline.exceptions import ModelLoadError
from hookline_description.locating import is_here
from hookline_hub.cache import Storage, cache_folder, storage_at
from hookline_hub.config import HubConfig
from hookline_hub.names import HubName

logger = logging.getLogger(__name__)


def locate(context: EngineConfig) -> EngineConfig | None:
    """Returns the configuration with paths in place of ids; None if it has none.

    The model keeps its id in the API, and in metrics.

    Raises:
        ConfigError: The revision does not fit.
        ModelLoadError: A model of that id cannot be had.
    """
    options, model = HubConfig.of(context), context.model
    weights = model.load_format is not LoadFormat.DUMMY
    name: HubName | None = None
    if (found := find(model.model, options, weights=weights)) is not None:
        name, folder = found
        model = replace(
            model,
            model=str(folder),
            served_model_name=model.served_model_name or name.served_name,
        )
    of_draft = replace(options, revision=None)
    of_tokenizer = replace(options, revision=options.tokenizer_revision)
    tokenizer = model.tokenizer
    if tokenizer is None and options.tokenizer_revision and name is not None:
        tokenizer = name.served_name
    if tokenizer and (found := find(tokenizer, of_tokenizer, weights=False)):
        model = replace(model, tokenizer=str(found[1]))
    speculative, draft = context.speculative, (context.speculative or {}).get("model")
    if isinstance(draft, str) and (found := find(draft, of_draft, weights=True)):
        speculative = {**(speculative or {}), "model": str(found[1])}
    if model is context.model and speculative is context.speculative:
        return None
    return replace(context, model=model, speculative=speculative)


def find(
    name: str, options: HubConfig, *, weights: bool
) -> tuple[HubName, Path] | None:
    """Returns a model's id and folder, or GGUF file; downloads what the cache lacks.

    Args:
        name: An id, or a model's folder of a cache.
        options: Where to look.
        weights: Whether weights are needed as well.

    Returns:
        None if the name is none of that.

    Raises:
        ConfigError: The revision does not fit.
        ModelLoadError: The model cannot be had.
    """
    if is_here(name) or (meant := _meant(name, options)) is None:
        return None
    hub_name, storage = meant
    if (folder := storage.whole(hub_name, weights=weights)) is not None:
        logger.info(
            "%s is in the cache, at commit %s: `hookline models pull` asks for a newer",
            hub_name,
            folder.relative_to(storage.snapshots).parts[0][:12],
        )
        return hub_name, folder
    if _is_offline(options):
        raise ModelLoadError(
            name, f"is not whole in {storage.cache}, and no hub is asked (offline)"
        )
    from hookline_hub.pulling import pull  # noqa: PLC0415 - it is slow

    return hub_name, pull(hub_name, storage.cache, weights=weights)


def _meant(name: str, options: HubConfig) -> tuple[HubName, Storage] | None:
    """Returns the model that a name means, and where the cache has it."""
    path = Path(name)
    if not path.is_dir():
        if (typed := HubName.parse(name, options.revision)) is None:
            return None
        return typed, Storage(cache_folder(options.download_dir), typed.repo)
    if (storage := storage_at(path.absolute())) is None:
        return None
    found = HubName.parse(storage.repo, options.revision)
    return None if found is None else (found, storage)


def _is_offline(options: HubConfig) -> bool:
    if options.offline:
        return True
    from huggingface_hub import is_offline_mode  # noqa: PLC0415 - it is slow

    return is_offline_mode()
