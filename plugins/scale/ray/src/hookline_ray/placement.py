"""A place on the cluster for each engine: a bundle of a placement group."""

from collections.abc import Sequence

import ray
from ray.actor import ActorHandle
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from hookline_ray.engine_actor import EngineActor


class Placement:
    """Reserves CPUs for engines, on as many nodes as possible.

    The first engines share a group; those that are added have one each. Ray moves the
    bundles of a node that has died to another one that has room.
    """

    def __init__(self, engines: Sequence[int], cpus: int) -> None:
        """Asks for the places; does not wait for them.

        Args:
            engines: Indices of the engines.
            cpus: CPUs of each.
        """
        self._cpus = cpus
        self._bundles = {index: bundle for bundle, index in enumerate(engines)}
        bundles = [{"CPU": float(cpus)} for _ in engines]
        self._group: PlacementGroup = placement_group(bundles, strategy="SPREAD")
        self._added: dict[int, PlacementGroup] = {}

    def make_actor(self, engine_index: int) -> ActorHandle[EngineActor]:
        """Asks for an actor in the engine's place; does not wait for it."""
        group, bundle = self._place_of(engine_index)
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=bundle
        )
        actor_class = ray.remote(EngineActor)
        return actor_class.options(
            num_cpus=self._cpus, scheduling_strategy=strategy, max_restarts=0
        ).remote()

    def num_beside(self, engine_index: int) -> int:
        """Returns the number of engines on the node of an engine, with itself."""
        group, bundle = self._place_of(engine_index)
        own = placement_group_table(group)["bundles_to_node_id"][bundle]
        return sum(
            node == own
            for each in (self._group, *self._added.values())
            for node in placement_group_table(each)["bundles_to_node_id"].values()
        )

    def give_back(self, engine_index: int) -> None:
        """Gives the place of an engine back, unless it is one of the first."""
        if (group := self._added.pop(engine_index, None)) is not None:
            remove_placement_group(group)

    def shortage(self) -> str:
        """Describes what was asked for, and what the cluster has."""
        nodes = [each for each in ray.nodes() if each["Alive"]]
        cpus = [f"{each['Resources'].get('CPU', 0.0):g}" for each in nodes]
        free = ray.available_resources().get("CPU", 0.0)
        count = len(self._bundles) + len(self._added)
        return (
            f"{count} engine{'s' * (count > 1)} with {self._cpus} CPU"
            f"{'s' * (self._cpus > 1)} each were asked for, and the cluster has "
            f"{len(nodes)} node{'s' * (len(nodes) > 1)} with {', '.join(cpus)} CPUs, "
            f"of which {free:g} are not in use"
        )

    def close(self) -> None:
        """Gives the places back; ends the actors in them."""
        for group in (self._group, *self._added.values()):
            remove_placement_group(group)

    def _place_of(self, engine_index: int) -> tuple[PlacementGroup, int]:
        """Returns a group and the bundle in it; asks for a place if there is none."""
        if engine_index in self._bundles:
            return self._group, self._bundles[engine_index]
        if engine_index not in self._added:
            self._added[engine_index] = placement_group([{"CPU": float(self._cpus)}])
        return self._added[engine_index], 0
