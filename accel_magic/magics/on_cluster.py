"""`--on CLIENT`: the cluster whose workers a cell is traced on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from accel_magic.api.options import ClusterOptions
from accel_magic.cluster.adapters import adapter_of
from accel_magic.errors import AccelMagicError, ProbeError
from accel_magic.magics.traced import TracedCells, traits_of

if TYPE_CHECKING:
    from collections.abc import Mapping


_SETTINGS: Final = traits_of(ClusterOptions)
_LABS: Final = 100
"""Longer lists are not looked into."""


@dataclass(frozen=True)
class Cluster:
    """Where a cell is traced.

    Attributes:
        client: The cluster's client, which an adapter exists for.
        options: `nodes` and `require_all`, those that were given.

    """

    client: Any
    options: dict[str, Any]


class OnCluster(TracedCells):
    """Base of the magics that can trace a cluster's workers."""

    locals().update(_SETTINGS)

    def defaults(self) -> dict[str, Any]:
        """Return the defaults of the options, without those of `--on`."""
        return {name: value for name, value in super().defaults().items() if name not in _SETTINGS}

    def cluster(self, given: Mapping[str, Any], here_only: Mapping[str, bool]) -> Cluster | None:
        """Find the cluster of a cell; nothing is sent to it yet.

        Args:
            given: `on`, `nodes` and `require_all`, as far as they are on the line.
            here_only: Options that have no meaning with `--on`, and whether they are on the line.

        Returns:
            None without `--on`, or if it is empty: the cell is traced here.

        Raises:
            ProbeError: The line has one of these options together with `--on`, or `--nodes` or `--require-all` without
                it; or it names something that is not a cluster's client.

        """
        chosen = {name: getattr(self, name) for name in _SETTINGS} | dict(given)
        name = chosen.pop("on")
        if not name:
            if "nodes" in given or "require_all" in given:
                raise ProbeError(
                    "--nodes and --require-all need --on",
                    why="they choose among the workers of a cluster",
                    fix="add --on CLIENT, a variable with a Dask or ipyparallel client",
                    code="option.needs-on",
                )
            return None
        for option in (option for option, there in here_only.items() if there):
            raise ProbeError(
                f"{option} cannot be used with --on {name}",
                why="it works in this notebook, not on the workers of a cluster",
                fix=f"remove {option}; or {option} without a cluster: --on ''",
                code="option.not-with-on",
            )
        client = named(name, self.shell.user_ns)
        adapter_of(client)
        return Cluster(client, {option: value for option, value in chosen.items() if value is not None})


def named(name: str, namespace: Mapping[str, Any]) -> Any:
    """Look up a variable of the notebook, or an attribute of one.

    Args:
        name: e.g. `client` or `cluster.client`.
        namespace: The notebook's variables.

    Raises:
        ProbeError: It is not a name, or there is no such variable or attribute.

    """
    first, *attributes = parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ProbeError(
            f"--on {name} is not the name of a variable",
            why="expressions are not evaluated",
            fix="assign it to a variable in a cell above, and give its name, e.g. --on view",
            code="cluster.bad-name",
        )
    try:
        value = namespace[first]
        for attribute in attributes:
            value = getattr(value, attribute)
    except (KeyError, AttributeError):
        known = clients(namespace)
        raise ProbeError(
            f"--on {name}: there is no such variable",
            fix=f"give one that has a client: {', '.join(known)}"
            if known
            else "create a client in a cell above: client = distributed.Client(ADDRESS), or ipyparallel.Client()",
            code="cluster.unknown-name",
        ) from None
    return value


def clients(namespace: Mapping[str, Any]) -> list[str]:
    """Return the names of the variables that hold a cluster's client; those that begin with `_` are left out."""
    found = []
    for name, value in list(namespace.items()):
        if not name.startswith("_") and not (isinstance(value, (list, tuple)) and len(value) > _LABS):
            with suppress(AccelMagicError):
                adapter_of(value)
                found.append(name)
    return sorted(found)
