"""One traced process of a job on many machines."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_RANKS: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables with the rank of a process: those of torchrun, srun, Open MPI, and MPICH."""
_LOCAL_RANKS: Final = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_JOBS: Final = (
    ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
)
"""Variables that together name a job; the first that are set count."""


@dataclass(frozen=True)
class Node:
    """A traced process.

    Attributes:
        host: Name of its machine.
        rank: Its number in the job; None if it has none.
        local_rank: Its number on its machine; None if it has none.
        job: The job, as its launcher names it; "" if it does not.
        name: Name of the process among those of the job: "rank 3", or what an engine calls it.

    """

    host: str
    rank: int | None = None
    local_rank: int | None = None
    job: str = ""
    name: str = ""


def of_environment(environment: Mapping[str, str] = os.environ) -> Node:
    """Describe this process by the variables that torchrun, srun and mpirun set."""
    rank = _number(environment, _RANKS)
    host = platform.node() or "unknown"
    return Node(
        host,
        rank,
        _number(environment, _LOCAL_RANKS),
        _job(environment),
        f"rank {rank}" if rank is not None else f"process {os.getpid()}",
    )


def _number(environment: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    for name in names:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None


def _job(environment: Mapping[str, str]) -> str:
    for names in _JOBS:
        if names[0] in environment:
            return "-".join(environment[name] for name in names if environment.get(name))
    return ""
