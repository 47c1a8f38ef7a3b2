"""The pages that a `%%gputrace pagetrace` has seen, as a page trace."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from accel_magic.policies.page_trace import PAGE_BYTES, PageTrace

KERNEL, REQUEST = "access", "prefetch request"
"""Origins of accesses, if programs asked for prefetches."""
MOST_PAGES: Final = 1 << 24
"""Of all requests together: 64 GiB."""


def trace_of(table: pd.DataFrame, requests: pd.DataFrame, device: str) -> PageTrace:
    """Convert the table of `pagetrace`.

    A prefetch request becomes an access to each page of its range, before the access that it precedes: to the driver it
    is a touch by the device, earlier than the kernel's own.

    Args:
        table: `launch`, `name`, `page` and `write`, in the order of the accesses.
        requests: Prefetch requests: `address`, `bytes`, `access` and so on; as `GpuResult.prefetches`.
        device: What it was recorded on, in words.

    """
    requested, left_out = _requested(requests)
    without = f", without {left_out} prefetch requests of too many pages" if left_out else ""
    if len(requested):
        order = np.concatenate([np.arange(len(table)) * 2 + 1, requested["access"].to_numpy("int64") * 2])
        table = pd.concat([table.assign(origin=0), requested.assign(origin=1, write=False)], ignore_index=True)
        table = table.iloc[np.argsort(order, kind="stable")]
    kernel, names = pd.factorize(table["name"])
    return PageTrace.of(
        table["page"].to_numpy("uint64"),
        write=table["write"].to_numpy(bool),
        kernel=kernel,
        kernels=[str(name) for name in names],
        launch=table["launch"].to_numpy("int32"),
        origin=table["origin"].to_numpy("int32") if len(requested) else None,
        origins=(KERNEL, REQUEST) if len(requested) else (),
        source=f"recorded by %%gputrace pagetrace on {device}{without}",
    )


def _requested(requests: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """A row per page that was asked for: `access`, `launch`, `name`, `page`; and how many requests are left out."""
    requests = requests[requests["access"].notna() & (requests["bytes"] > 0)]
    first = requests["address"].to_numpy("uint64") // PAGE_BYTES
    reach = requests["bytes"].to_numpy("uint64") - np.uint64(1)
    last = np.minimum(requests["address"].to_numpy("uint64"), ~reach) + reach  # ends with the address space
    count = (last // PAGE_BYTES - first + 1).astype(np.int64)
    fits = count <= MOST_PAGES
    fits &= np.where(fits, count, 0).cumsum() <= MOST_PAGES
    left_out = int((~fits).sum())
    requests, first, count = requests[fits], first[fits], count[fits]
    repeated = requests.loc[requests.index.repeat(count), ["access", "launch", "name"]].reset_index(drop=True)
    within = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
    return repeated.assign(page=np.repeat(first, count) + within.astype(np.uint64)), left_out
