"""The models of the upstreams: their list, and who serves which."""

from collections.abc import Collection, Mapping, Sequence

import aiohttp
import msgspec

from hookline_gateway.upstreams.asking import UPSTREAM_ERRORS
from hookline_gateway.upstreams.instance import Instance
from hookline_gateway.upstreams.watch import bearer, get_page


class _Listed(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _List(msgspec.Struct):
    data: list[msgspec.Raw] = []


async def look_at_models(
    instance: Instance, session: aiohttp.ClientSession, key: str | None
) -> None:
    """Notes the models that an upstream lists; those before stay if it lists none."""
    try:
        status, page = await get_page(session, f"{instance.url}/v1/models", bearer(key))
        entries = msgspec.json.decode(page, type=_List).data if status == 200 else []
        listed = [(msgspec.json.decode(each, type=_Listed), each) for each in entries]
    except (*UPSTREAM_ERRORS, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if not listed:
        return
    # The page's bytes would stay as long as its parts.
    instance.models = {each.id: msgspec.Raw(bytes(raw)) for each, raw in listed}
    first, _ = listed[0]
    if first.max_model_len is not None and first.max_model_len > 0:
        instance.max_model_len = first.max_model_len


def not_serving(model: str, instances: Sequence[Instance]) -> Collection[Instance]:
    """Returns the upstreams that do not serve a model; none if nobody says it does."""
    if len(instances) < 2:
        return ()  # if it is the only one to serve the model, or does not say so
    if not model or not any(model in each.models for each in instances):
        return ()
    return [each for each in instances if each.models and model not in each.models]


def merged_list(instances: Sequence[Instance]) -> bytes | None:
    """Returns the list of all models; None if every upstream has the same ones."""
    lists = [each.models for each in instances if each.models]
    if all(each.keys() == lists[0].keys() for each in lists):
        return None
    every: Mapping[str, msgspec.Raw] = {
        name: raw for models in lists for name, raw in models.items()
    }
    return msgspec.json.encode({"object": "list", "data": list(every.values())})
