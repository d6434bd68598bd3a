"""LoRA adapters, which `--lora-modules` after `--` names as for `vllm serve`."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from hookline.exceptions import ConfigError, ModelLoadError
from hookline_registry import Failure, isolate
from hookline_vllm_engine.binding import Binding

_FLAG = "engine-argument"


class Adapter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An adapter, as one value of `--lora-modules` names it.

    Attributes:
        name: Its name in the API.
        path: Its folder.
        base_model_name: The model that it was made for; only told.
    """

    name: str
    path: str
    base_model_name: str | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(_FLAG, message)


def split(arguments: Sequence[str]) -> tuple[list[str], Sequence[Adapter]]:
    """Returns the arguments of vLLM's engine, and the adapters among them.

    Raises:
        ConfigError: A value is neither `NAME=FOLDER` nor JSON with these two, a folder
            is missing, or a name is there twice.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--lora-modules", nargs="+", action="extend", default=[])
    given, others = parser.parse_known_args(list(arguments))
    found = [_read(text) for text in given.lora_modules]
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(_FLAG, f"--lora-modules: {name!r} is there twice")
    return others, found


def _read(text: str) -> Adapter:
    try:
        if text.startswith("{"):
            found = msgspec.json.decode(text, type=Adapter)
        else:
            name, _, path = text.partition("=")
            found = Adapter(name, path)
    except msgspec.DecodeError as error:
        raise ConfigError(_FLAG, f"--lora-modules: {text}: {error}") from error
    if not (found.name and found.path):
        wrong = f"{text!r} is neither NAME=FOLDER nor JSON with name and path"
        raise ConfigError(_FLAG, f"--lora-modules: {wrong}")
    if not Path(found.path).is_dir():
        raise ConfigError(_FLAG, f"--lora-modules: no folder {found.path}")
    return found


def load(core: Any, adapters: Sequence[Adapter], vllm: Binding) -> Mapping[str, Any]:
    """Has vLLM load adapters, and returns its requests for them by their names.

    Raises:
        ModelLoadError: One does not fit the model, or vLLM's limits.
    """
    made = {
        each.name: vllm.LoRARequest(
            lora_name=each.name,
            lora_int_id=number,
            lora_path=each.path,
            base_model_name=each.base_model_name,
        )
        for number, each in enumerate(adapters, 1)
    }
    for each in adapters:
        outcome = isolate(core.add_lora, made[each.name])
        if isinstance(outcome, Failure):
            reason = f"vLLM does not load the adapter {each.name}: {outcome.summary}"
            raise ModelLoadError(each.path, reason) from outcome.error
    return made
