"""What an adapter's `adapter_config.json` says of its modules, and what it may say."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from hookline_lora.files.header import short
from hookline_lora.files.patterns import Pattern, endings, is_plain
from hookline_processes.model_files import read_model_file

FILE: Final = "adapter_config.json"
MAX_BYTES: Final = 1 << 20
MAX_RANK: Final = 1 << 16
HEAD: Final = "lm_head"
_EMBEDDINGS = "embed_tokens"
_ALL_LINEAR = "all-linear"
_MOST_EXPRESSIONS = 32
_MOST_LAYERS = 1 << 16
_LARGEST_ALPHA = 1e6

_REFUSED: Mapping[str, str] = {
    "use_dora": "DoRA is not supported",
    "alora_invocation_tokens": "activated LoRA (aLoRA) is not supported",
    "lora_bias": "biases are not supported",
    "layer_replication": "replicated layers are not supported",
    "target_parameters": "parameters that are no layer's weight are not supported",
    "trainable_token_indices": "trainable tokens are not supported",
    "megatron_config": "Megatron's layers are not supported",
}
_UNIMPORTANT = {
    *("auto_mapping", "base_model_name_or_path", "exclude_modules", "fan_in_fan_out"),
    *("inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout"),
    *("megatron_core", "peft_version", "qalora_group_size", "revision", "task_type"),
    *("eva_config", "corda_config", "lora_ga_config", "loftq_config"),
}
"""Keys that change no output, or are read elsewhere."""
_READ = {
    *("peft_type", "bias", "r", "lora_alpha", "use_rslora", "target_modules"),
    *("rank_pattern", "alpha_pattern", "modules_to_save", "init_lora_weights"),
}
_CHANGE_THE_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeftConfig:
    """An adapter's configuration.

    Attributes:
        rank: Rank of modules without one of their own.
        alpha: `lora_alpha` of modules without one of their own.
        base_model_name: The base model that it names.
    """

    rank: int
    alpha: float
    base_model_name: str | None
    is_rank_stabilized: bool
    saves_head: bool
    targets: "_Modules"
    excluded: "_Modules | None"
    layers: "_Layers | None"
    ranks: "_ByModule"
    alphas: "_ByModule"

    def has(self, module: str) -> bool:
        """Whether a module of the base has an adapter, by PEFT's rules."""
        if self.saves_head and HEAD in endings(module):
            return False
        if self.excluded is not None and self.excluded.has(module):
            return False
        if not self.targets.has(module):
            return False
        return self.layers is None or self.layers.has(module)

    def saves(self, module: str) -> bool:
        """Whether the adapter replaces a module's weight."""
        return self.saves_head and HEAD in endings(module)

    def rank_of(self, module: str) -> int:
        """Returns the rank of a module."""
        return int(self.ranks.of(module, self.rank))

    def scale_of(self, module: str) -> float:
        """Returns the factor of a module's product."""
        rank, alpha = self.rank_of(module), self.alphas.of(module, self.alpha)
        return alpha / (math.sqrt(rank) if self.is_rank_stabilized else rank)


def read_config(folder: Path) -> PeftConfig:
    """Reads an adapter's configuration.

    Raises:
        OSError: There is none, or it cannot be read.
        ValueError: It is damaged, or asks for what is not supported; in one clause.
    """
    text = read_model_file(folder / FILE, MAX_BYTES).decode()
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - of the file
    return _configuration(found)


def _configuration(found: Mapping[str, object]) -> PeftConfig:
    kind = found.get("peft_type")
    if kind != "LORA":
        raise ValueError(f"peft_type is {short(kind)}; only LORA is supported")
    _refuse_others(found)
    saved = _names(found, "modules_to_save")
    if others := [each for each in saved if each != HEAD]:
        raise ValueError(
            f"modules_to_save has {short(others[0])}; only {HEAD} is supported"
        )
    targets = found.get("target_modules")
    layers = _layers(found)
    if isinstance(targets, str) and layers is not None:
        raise ValueError("layers_to_transform needs a list of target_modules")
    has_excluded = bool(found.get("exclude_modules"))
    name = found.get("base_model_name_or_path")
    return PeftConfig(
        rank=_rank("r", found.get("r", 8)),
        alpha=_alpha("lora_alpha", found.get("lora_alpha", 8)),
        base_model_name=name if isinstance(name, str) and name else None,
        is_rank_stabilized=found.get("use_rslora") is True,
        saves_head=bool(saved),
        targets=_modules("target_modules", found),
        excluded=_modules("exclude_modules", found) if has_excluded else None,
        layers=layers,
        ranks=_ByModule("rank_pattern", _pattern(found, "rank_pattern", _rank)),
        alphas=_ByModule("alpha_pattern", _pattern(found, "alpha_pattern", _alpha)),
    )


def _refuse_others(found: Mapping[str, object]) -> None:
    """Refuses every key that may change the output and is not understood."""
    for key, reason in _REFUSED.items():
        if found.get(key) not in (None, False):
            raise ValueError(f"{key} is {short(found[key])}: {reason}")
    bias = found.get("bias", "none")
    if bias != "none":
        raise ValueError(f"bias is {short(bias)}: biases are not supported")
    start = found.get("init_lora_weights")
    if isinstance(start, str) and start.lower().startswith(_CHANGE_THE_BASE):
        raise ValueError(
            f"init_lora_weights is {short(start)}, which changes the base model's "
            "weights; save the adapter with path_initial_model_for_weight_conversion"
        )
    if not isinstance(found.get("use_rslora") or False, bool):
        reason = f"use_rslora is {short(found['use_rslora'])}, not a boolean"
        raise ValueError(reason)  # noqa: TRY004 - of the file
    for key, value in found.items():
        if key in _READ | _UNIMPORTANT | _REFUSED.keys():
            continue
        if value not in (None, False, [], {}, ""):
            raise ValueError(f"{short(key)} is {short(value)}, which is not supported")


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 5


class _Modules:
    """Names of modules, or an expression for them."""

    def __init__(self, given: Iterable[str] | Pattern | None) -> None:
        """`given` is None for all linear layers but the head."""
        self._pattern = given if isinstance(given, Pattern) else None
        self._names = (
            None if given is None or isinstance(given, Pattern) else frozenset(given)
        )

    def has(self, module: str) -> bool:
        if self._pattern is not None:
            return self._pattern.matches(module)
        if self._names is None:
            return module.rpartition(".")[2] not in (HEAD, _EMBEDDINGS)
        return not self._names.isdisjoint(endings(module))


class _Layers:
    """Indices of the layers that have adapters."""

    def __init__(self, indices: Iterable[int], containers: Iterable[str]) -> None:
        self._indices = frozenset(indices)
        self._containers = [tuple(each.split(".")) for each in containers]

    def has(self, module: str) -> bool:
        return self._layer_of(module.split(".")) in self._indices

    def _layer_of(self, parts: list[str]) -> int | None:
        """The first number, behind two names or one of a layers' container."""
        places = range(1, len(parts) - 1)
        numbers = [at for at in places if _is_index(parts[at])]
        if not self._containers:
            return next((int(parts[at]) for at in numbers if at > 1), None)
        for container in self._containers:
            for at in numbers:
                if tuple(parts[max(0, at - len(container)) : at]) == container:
                    return int(parts[at])
        return None


class _ByModule:
    """Numbers by the names of modules, or expressions for their endings."""

    def __init__(self, key: str, given: Mapping[str, float]) -> None:
        self._numbers = list(given.values())
        self._plain: dict[str, int] = {}
        self._expressions: list[tuple[int, Pattern]] = []
        for at, text in enumerate(given):
            if is_plain(text):
                self._plain[text] = at
            else:
                self._expressions.append((at, _compiled(key, rf"(.*\.)?({text})")))
        if len(self._expressions) > _MOST_EXPRESSIONS:
            raise ValueError(f"{key} has more than {_MOST_EXPRESSIONS} expressions")

    def of(self, module: str, default: float) -> float:
        """The first that matches is taken."""
        found = [
            self._plain[each] for each in endings(module) if each in self._plain
        ] + [at for at, pattern in self._expressions if pattern.matches(module)]
        return self._numbers[min(found)] if found else default


def _modules(key: str, found: Mapping[str, object]) -> _Modules:
    given = found.get(key)
    if given == _ALL_LINEAR and key == "target_modules":
        return _Modules(None)
    if isinstance(given, str):
        return _Modules(_compiled(key, given))
    names = _names(found, key)
    if not names:
        raise ValueError(f"{key} names no modules")
    return _Modules(names)


def _names(found: Mapping[str, object], key: str) -> list[str]:
    given = found.get(key)
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ValueError(f"{key} is {short(given)}, not a list of names")
    return given


def _layers(found: Mapping[str, object]) -> _Layers | None:
    given = found.get("layers_to_transform")
    if given is None or given == []:
        return None
    listed = given if isinstance(given, list) else [given]
    indices = [each for each in listed if type(each) is int]
    if len(indices) < len(listed) or not all(
        0 <= each < _MOST_LAYERS for each in indices
    ):
        raise ValueError(f"layers_to_transform is {short(given)}, not a list of layers")
    pattern = found.get("layers_pattern") or None
    containers = (
        [pattern] if isinstance(pattern, str) else _names(found, "layers_pattern")
    )
    if wrong := [each for each in containers if not each or not is_plain(each)]:
        raise ValueError(f"layers_pattern is {short(wrong[0])}, not a name")
    return _Layers(indices, containers)


def _pattern(
    found: Mapping[str, object], key: str, number: Callable[[str, object], float]
) -> dict[str, float]:
    given = found.get(key) or {}
    if not isinstance(given, dict):
        raise ValueError(f"{key} is {short(given)}, not an object")  # noqa: TRY004
    return {
        name: number(f"{key}: {short(name)}", value) for name, value in given.items()
    }


def _compiled(key: str, text: str) -> Pattern:
    try:
        return Pattern(text)
    except ValueError as error:
        raise ValueError(f"{key}: {short(text)} cannot be used: {error}") from error


def _rank(key: str, value: object) -> int:
    if type(value) is not int or not 1 <= value <= MAX_RANK:
        raise ValueError(f"{key} is {short(value)}; it must be 1 to {MAX_RANK}")
    return value


def _alpha(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} is {short(value)}, not a number")  # noqa: TRY004
    if not abs(value) <= _LARGEST_ALPHA:
        raise ValueError(f"{key} is {short(value)}; it must be at most 1e6")
    return float(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
