"""Tables of several nodes as one, with columns for the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.cluster.node import Node

NODE: Final = ("node", "host", "rank")
"""Columns that come first; another name is used where a table has such a column itself."""


def together(tables: Sequence[tuple[Node, pd.DataFrame]]) -> pd.DataFrame:
    """Concatenate the tables of nodes, with `node` (its name), `host` and `rank` (Int64) as the first columns.

    Args:
        tables: The nodes' tables; those of some nodes may lack columns that others have.

    """
    taken = {name for _, table in tables for name in table.columns}
    names = [name if name not in taken else f"{name} of cluster" for name in NODE]
    parts = []
    for node, table in tables:
        values: tuple[Any, ...] = (node.name, node.host, pd.NA if node.rank is None else node.rank)
        part = table.copy()
        for at, (name, value) in enumerate(zip(names, values, strict=True)):
            part.insert(at, name, value)
        parts.append(part.astype(dict(zip(names, ("str", "str", "Int64"), strict=True))))
    filled = [part for part in parts if len(part)] or parts[:1]
    return pd.concat(filled, ignore_index=True) if len(filled) > 1 else filled[0].reset_index(drop=True)
