"""A place on the cluster for each engine or rank: a bundle of a placement group."""

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

from hookline_ray.messages import Kind
from hookline_ray.process_actor import ProcessActor

_STRATEGIES = {Kind.ENGINE: "SPREAD", Kind.RANK: "PACK"}
"""Engines are on as many nodes as possible, ranks on as few: these talk a lot."""


class Placement:
    """Reserves CPUs for engines or ranks.

    The first ones share a group; engines that are added have one each. Ray moves the
    bundles of a node that has died to another one that has room.
    """

    def __init__(self, kind: Kind, indices: Sequence[int], cpus: int) -> None:
        """Asks for the places; does not wait for them.

        Args:
            kind: What is placed.
            indices: Their indices.
            cpus: CPUs of each.
        """
        self._kind, self._cpus = kind, cpus
        self._bundles = {index: bundle for bundle, index in enumerate(indices)}
        bundles = [{"CPU": float(cpus)} for _ in indices]
        self._group: PlacementGroup = placement_group(
            bundles, strategy=_STRATEGIES[kind]
        )
        self._added: dict[int, PlacementGroup] = {}

    def make_actor(self, index: int) -> ActorHandle[ProcessActor]:
        """Asks for an actor in a place; does not wait for it."""
        group, bundle = self._place_of(index)
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=bundle
        )
        actor_class = ray.remote(ProcessActor)
        return actor_class.options(
            num_cpus=self._cpus, scheduling_strategy=strategy, max_restarts=0
        ).remote()

    def num_beside(self, index: int) -> int:
        """Returns the number of places on the node of one of them, with itself."""
        group, bundle = self._place_of(index)
        own = placement_group_table(group)["bundles_to_node_id"][bundle]
        return sum(
            node == own
            for each in (self._group, *self._added.values())
            for node in placement_group_table(each)["bundles_to_node_id"].values()
        )

    def give_back(self, index: int) -> None:
        """Gives a place back, unless it is one of the first."""
        if (group := self._added.pop(index, None)) is not None:
            remove_placement_group(group)

    def shortage(self) -> str:
        """Describes what was asked for, and what the cluster has."""
        nodes = [each for each in ray.nodes() if each["Alive"]]
        cpus = [f"{each['Resources'].get('CPU', 0.0):g}" for each in nodes]
        free = ray.available_resources().get("CPU", 0.0)
        count = len(self._bundles) + len(self._added)
        return (
            f"{count} {self._kind}{'s' * (count > 1)} with {self._cpus} CPU"
            f"{'s' * (self._cpus > 1)} each were asked for, and the cluster has "
            f"{len(nodes)} node{'s' * (len(nodes) > 1)} with {', '.join(cpus)} CPUs, "
            f"of which {free:g} are not in use"
        )

    def close(self) -> None:
        """Gives the places back; ends the actors in them."""
        for group in (self._group, *self._added.values()):
            remove_placement_group(group)

    def _place_of(self, index: int) -> tuple[PlacementGroup, int]:
        """Returns a group and the bundle in it; asks for a place if there is none."""
        if index in self._bundles:
            return self._group, self._bundles[index]
        if index not in self._added:
            self._added[index] = placement_group([{"CPU": float(self._cpus)}])
        return self._added[index], 0
