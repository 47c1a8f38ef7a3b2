"""The pages that a `%%gputrace pagetrace` has seen, as a page trace."""

from __future__ import annotations

import pandas as pd

from accel_magic.policies.traces import PageTrace


def trace_of(table: pd.DataFrame, device: str) -> PageTrace:
    """Convert the table of `pagetrace`.

    Args:
        table: `launch`, `name`, `page` and `write`, in the order of the accesses.
        device: What it was recorded on, in words.

    """
    kernel, names = pd.factorize(table["name"])
    return PageTrace.of(
        table["page"].to_numpy("uint64"),
        write=table["write"].to_numpy(bool),
        kernel=kernel,
        kernels=[str(name) for name in names],
        launch=table["launch"].to_numpy("int32"),
        source=f"recorded by %%gputrace pagetrace on {device}",
    )
