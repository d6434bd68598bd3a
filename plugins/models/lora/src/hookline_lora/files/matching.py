"""Which tensor of an adapter's file belongs to which module of the base model."""

from collections.abc import Mapping
from dataclasses import dataclass

from hookline_lora.config import LoraConfig
from hookline_lora.files.configuration import PeftConfig
from hookline_lora.files.header import Place, short

Targets = Mapping[str, tuple[int, int]]
"""(in, out) features of the base's modules; of an embedding (vocabulary, width)."""

_PREFIX = "base_model.model."
_MODEL = "model."
_LINEAR = ("lora_A.weight", "lora_B.weight")
_EMBEDDING = ("lora_embedding_A", "lora_embedding_B")
_WHOLE = "weight"
_BASE_COPY = "base_layer.weight"
_HAVE_COPIES = ("embed_tokens", "lm_head")
"""Modules whose base weights PEFT saves with their adapters; nothing trains those."""
_FOREIGN = {
    "lora_magnitude_vector": "belongs to DoRA, which is not supported",
    "bias": "is a bias; biases are not supported",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProduct:
    """A module's matrices in the file.

    Attributes:
        module: Its name in the base model.
        down: A, [rank, in].
        up: B, [out, rank].
        scale: Factor of the product.
        is_embedding: Whether A has a column for each token.
    """

    module: str
    down: Place
    up: Place
    scale: float
    is_embedding: bool

    @property
    def rank(self) -> int:
        """Rank of the product."""
        return self.down.shape[0]


class Matching:
    """Finds the tensors of every module that the configuration names, and no others."""

    def __init__(
        self,
        places: Mapping[str, Place],
        targets: Targets,
        config: LoraConfig,
        peft: PeftConfig,
    ) -> None:
        """Takes the file's tensors by name and the base's modules."""
        self._left = dict(places)
        self._targets, self._config, self._peft = targets, config, peft
        names = {module: module for module in targets}
        if not any(_is_of(each, names) for each in places):
            names = {each.removeprefix(_MODEL): each for each in targets}
        self._names = names
        """The base's modules by their names in the file.

        An adapter of a model without a head has them without the first part.
        """

    def matched(self) -> tuple[tuple[StoredProduct, ...], dict[str, Place]]:
        """Returns the products and the whole weights, sorted by module.

        Raises:
            ValueError: A tensor is missing, has a wrong shape or rank, or is one too
                many; or a module may not be changed.
        """
        changed = [each for each in sorted(self._names) if self._peft.has(each)]
        saved = [each for each in sorted(self._names) if self._peft.saves(each)]
        for name in (*changed, *saved):
            self._check_is_allowed(name)
        products = tuple(self._product(each) for each in changed)
        whole = {self._names[each]: self._weight(each) for each in saved}
        for name in self._left:
            raise ValueError(f"{short(name)} {self._why_foreign(name)}")
        if not products and not whole:
            raise ValueError(
                "no module of the base model is one of the adapter's target_modules"
            )
        return products, whole

    def _check_is_allowed(self, name: str) -> None:
        last = name.rpartition(".")[2]
        allowed = self._config.target_modules
        if allowed is not None and last not in allowed:
            raise ValueError(
                f"it changes {name}, and --lora-target-modules has no {last}"
            )

    def _product(self, name: str) -> StoredProduct:
        inputs, outputs = self._targets[self._names[name]]
        rank, most = self._peft.rank_of(name), self._config.max_lora_rank
        if rank > most:
            raise ValueError(f"{name} has rank {rank}; --max-lora-rank is {most}")
        is_embedding = any(
            f"{_PREFIX}{name}.{each}" in self._left for each in _EMBEDDING
        )
        down, up = _EMBEDDING if is_embedding else _LINEAR
        product = StoredProduct(
            module=self._names[name],
            down=self._take(f"{name}.{down}", (rank, inputs)),
            up=self._take(f"{name}.{up}", (outputs, rank)),
            scale=self._peft.scale_of(name),
            is_embedding=is_embedding,
        )
        copy = f"{name}.{_BASE_COPY}"
        if name.rpartition(".")[2] in _HAVE_COPIES and _PREFIX + copy in self._left:
            shape = (inputs, outputs) if is_embedding else (outputs, inputs)
            self._take(copy, shape)
        return product

    def _weight(self, name: str) -> Place:
        inputs, outputs = self._targets[self._names[name]]
        return self._take(f"{name}.{_WHOLE}", (outputs, inputs))

    def _take(self, name: str, shape: tuple[int, int]) -> Place:
        found = self._left.pop(_PREFIX + name, None)
        if found is None:
            raise ValueError(f"{_PREFIX}{name} is missing")
        if found.shape != shape:
            raise ValueError(
                f"{_PREFIX}{name} has the shape {list(found.shape)}; the base model "
                f"and the adapter's configuration need {list(shape)}"
            )
        return found

    def _why_foreign(self, name: str) -> str:
        for ending, reason in _FOREIGN.items():
            if name.endswith(f".{ending}"):
                return reason
        if not name.startswith(_PREFIX):
            return f"is no tensor of PEFT, whose names begin with {_PREFIX}"
        if not _is_of(name, self._names):
            return "belongs to no layer of the base model that can have an adapter"
        return "is not one of those that the adapter's configuration asks for"


def _is_of(tensor: str, names: Mapping[str, str]) -> bool:
    """Whether a tensor belongs to one of the modules."""
    name = tensor.removeprefix(_PREFIX)
    for ending in (*_LINEAR, *_EMBEDDING, _BASE_COPY, _WHOLE):
        if name.endswith(f".{ending}"):
            return name.removesuffix(f".{ending}") in names
    return False
