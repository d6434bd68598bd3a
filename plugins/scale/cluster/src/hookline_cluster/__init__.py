"""Several engines behind a front end, several front ends, machines and their links."""

from hookline import hookimpl


@hookimpl
def create_cluster() -> object:
    """Returns what connects several engines; imported late, as it imports much."""
    from hookline_cluster.cluster import InstalledCluster  # noqa: PLC0415

    return InstalledCluster()
