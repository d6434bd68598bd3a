"""A value of each type that crosses the wire, made from the type's own annotations.

Values depend only on the names of fields, so that a new field changes no other one.
Options are set and collections have one item, so that a message shows all its parts.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import inspect

from hookline.config import (
    CacheConfig,
    EngineConfig,
)
from hookline.sampling_params import SamplingParams
from hookline.sampling_values import SamplingValues
from hookline.structured_outputs import StructuredOutputsParams
from hookline_cluster.config import ClusterConfig
from hookline_kv_transfer.config import KVTransferConfig

Record = inspect.StructType | inspect.DataclassType

OWN_SAMPLES: Mapping[type, Callable[[], object]] = {
    EngineConfig: lambda: EngineConfig(
        cache=CacheConfig(num_kv_blocks=64),
        sections={"cluster": ClusterConfig(data_parallel_size=2)},
        speculative={"method": "ngram", "num_speculative_tokens": 3},
        kv_transfer=KVTransferConfig(kv_connector="shared_storage").section(),
    ),
    SamplingValues: lambda: SamplingParams(
        n=2,
        max_tokens=9,
        temperature=0.5,
        top_k=3,
        logit_bias={7: 1.5},
        stop=("stop",),
        stop_token_ids=(8,),
        logprobs=2,
        seed=11,
        extra_args={"name": [1, "two"]},
        structured_outputs=StructuredOutputsParams(regex="a+"),
    ),
}
"""Of types that check their values."""


def records_of(*roots: object) -> dict[str, Record]:
    """Returns all structs and dataclasses inside of messages, by readable name.

    Two of one name have their tags behind the name.
    """
    found: dict[type, Record] = {}
    for root in roots:
        _collect(inspect.type_info(root), found)
    names = [kind.__name__ for kind in found]
    return {
        name if names.count(name) == 1 else f"{name} ({_tag(record)})": record
        for name, record in zip(names, found.values(), strict=True)
    }


def sample(record: Record) -> object:
    """Returns a value of a struct or dataclass."""
    if (own := OWN_SAMPLES.get(record.cls)) is not None:
        return own()
    values = {
        each.name: False if each.default is True else _value(each.type, each.name)
        for each in record.fields
    }
    return record.cls(**values)


def _tag(record: Record) -> object:
    return getattr(record, "tag", None)


def _collect(kind: inspect.Type, found: dict[type, Record]) -> None:
    if isinstance(kind, Record):
        if kind.cls in found:
            return
        found[kind.cls] = kind
        if kind.cls is EngineConfig:  # one type for the wire, with all its sections
            return
    for part in _parts(kind):
        _collect(part, found)


def _parts(kind: inspect.Type) -> Iterator[inspect.Type]:
    for name in ("item_type", "key_type", "value_type"):
        if (part := getattr(kind, name, None)) is not None:
            yield part
    for name in ("types", "item_types"):
        yield from getattr(kind, name, ())
    for field in getattr(kind, "fields", ()):
        yield field.type


def _value(kind: inspect.Type, name: str) -> object:  # noqa: PLR0911
    match kind:
        case inspect.StructType() | inspect.DataclassType():
            return sample(kind)
        case inspect.EnumType():
            return next(iter(kind.cls))
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.UnionType():
            options = (each for each in kind.types if not _is_none(each))
            return _value(next(options), name)
        case inspect.VarTupleType() | inspect.FrozenSetType():
            return (_value(kind.item_type, name),)
        case inspect.TupleType():
            return tuple(_value(each, name) for each in kind.item_types)
        case inspect.CollectionType():
            return [_value(kind.item_type, name)]
        case inspect.DictType():
            return {_value(kind.key_type, name): _value(kind.value_type, name)}
        case _:
            return _scalar(kind, name)


def _is_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.NoneType)


def _scalar(kind: inspect.Type, name: str) -> object:
    number = zlib.crc32(name.encode()) % 1000 + 1
    match kind:
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return number if kind.le is None else min(number, kind.le)
        case inspect.FloatType():
            value = number + 0.5
            return value if kind.le is None else min(value, kind.le)
        case inspect.BytesType():
            return name.encode()
        case inspect.NoneType():
            return None
        case _:
            return name


def encoded(value: object, enc_hook: Callable[[object], object]) -> bytes:
    """Returns a value as it stands in a message."""
    return msgspec.msgpack.Encoder(enc_hook=enc_hook).encode(value)
