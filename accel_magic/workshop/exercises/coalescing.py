"""Exercise 8: rewrite a kernel that scatters its stores, so that whole sectors of memory are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from accel_magic.errors import AccelMagicError
from accel_magic.workshop.exercise import Exercise, Remark, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

SIZE: Final = 64
"""Columns of the matrix in the notebook."""
_SIZES: Final = (SIZE, 96)
"""Columns of the matrices that an answer is checked with."""
SAME_CODE: Final = 60
"""Seeds that differ by a multiple of this turn matrices alike, so that the same answer is right."""
_MOST_MOVED: Final = 1.25
"""Times the sectors that the bytes need."""
_SECTOR, _WORD, _BANKS, _WARP = 32, 4, 32, 32
_GLOBAL: Final = ("global", "generic")
_TURNS: Final[tuple[tuple[str, Callable[[Matrix], Matrix]], ...]] = (
    ("(x) * n + (y)", np.transpose),
    ("(x) * n + n - 1 - (y)", lambda matrix: np.rot90(matrix, -1)),
    ("(n - 1 - (x)) * n + (y)", np.rot90),
    ("(n - 1 - (x)) * n + n - 1 - (y)", lambda matrix: np.rot90(matrix, 2).T),
)
"""Where the element in column x and row y goes, in C and by numpy."""
KERNEL: Final = """
extern "C" __global__ void turn(const float *in, float *out, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int r = 0; r < 32; r += 8)
        out[TO(x, y + r)] = in[(y + r) * n + x];
}
"""
"""The starting kernel, without the definition of `TO`."""


@dataclass(frozen=True)
class Traffic:
    """What one launch of a kernel did, by the addresses of its accesses.

    Attributes:
        moved: Sectors of global memory that warps moved, by `load` and `store`.
        needed: Sectors that hold the matrix.
        passes: Passes over the banks of shared memory.
        fewest: Passes without conflicts.
        races: Whether threads used the same shared memory without an order.

    """

    moved: Mapping[str, int]
    needed: int
    passes: int
    fewest: int
    races: bool


class Coalescing(Exercise):
    """A matrix is turned: transposed, mirrored, or rotated either way."""

    number = 8
    name = "coalescing"
    title = "Which accesses are scattered?"
    minutes = 10
    needs = "nothing"
    answers: ClassVar = {"fast": "CUDA C of a kernel `turn` with the same arguments, as a text"}
    traces = ("t", "t2")
    hints = (
        (
            "`t.tools['memtrace']` has a row for each access. Which row has a high `ratio`? There, the addresses of "
            "lanes whose `x` differs by 1 are far apart."
        ),
        (
            "If loads follow the rows, stores follow the columns. Bring a tile of 32 x 32 elements to `__shared__` "
            "memory with loads along rows. Then let neighboring lanes store neighboring elements of the *result*."
        ),
        (
            "Between writing and reading the tile, all threads of the block must wait for each other: "
            "`__syncthreads()`. For the stores, swap the lanes' roles: `x = blockIdx.x * 32 + threadIdx.y`, "
            "`y = blockIdx.y * 32 + threadIdx.x`."
        ),
        (
            "Shared memory has 32 banks, each 4 bytes wide. The lanes that read a column of `tile[32][32]` all need "
            "the same bank. With rows of another length they do not."
        ),
    )
    takeaway = "Neighboring lanes should touch neighboring addresses. If they cannot, go through shared memory."
    wrong: ClassVar = {
        "other-turn": "The elements go to other places than `TO` says. What are `x` and `y` there?",
        "one-size": "The result is right for 64 x 64 only. What in your kernel is not computed from `n`?",
        "scattered-stores": "The stores are still scattered: how far apart are the addresses of two neighboring lanes?",
        "scattered-loads": "Now the stores follow the rows, but the loads do not: the problem has only moved.",
        "bank-conflicts": (
            "Lanes of a warp request different words of the same bank of shared memory, and wait for each other. "
            "`t2.diagnose()` shows where."
        ),
        "no-barrier": (
            "Threads read what other threads write to shared memory, and nothing makes them wait. The simulated "
            "device happened to run the warps in an order that is right; a GPU need not. `%%gputrace races` shows the "
            "two lines."
        ),
    }

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._place, self._turned = _TURNS[seed % SAME_CODE % len(_TURNS)]
        self._numbers = np.random.default_rng(self.random.getrandbits(64))

    @property
    def to(self) -> str:
        """The definition of `TO(x, y)`: where the element in column x and row y goes."""
        return f"#define TO(x, y) ({self._place})\n"

    def ran(self) -> bool:
        """Whether an answer can be judged: always, because it is code."""
        return True

    def matrix(self, n: int = SIZE) -> Matrix:
        """Return random numbers; float32, shape (n, n)."""
        return self._numbers.random((n, n), np.float32)

    def judge(self, answers: Mapping[str, Any]) -> list[Remark]:
        """Compare with numpy, and count sectors and passes from the addresses of all accesses."""
        source = text(answers, "fast")
        for n in _SIZES:
            matrix = self.matrix(n)
            try:
                result = turned(source, matrix)
            except (AccelMagicError, UnicodeError) as error:
                return [self._failed(n, str(error))]
            if not np.array_equal(result, self._turned(matrix)):
                return [self._differs(matrix, result)]
        traffic = recorded(source, matrix)
        equal = f"The results equal numpy's, for matrices of {' and '.join(map(str, _SIZES))}."
        return [Remark("fast", True, equal), self._traffic(traffic), self._banks(traffic), self._order(traffic)]

    def _failed(self, n: int, error: str) -> Remark:
        if n == SIZE:
            return Remark("fast", False, error)
        return Remark("fast", False, f"{self.wrong['one-size']} With {n} x {n}: {error}", "one-size")

    def _differs(self, matrix: Matrix, result: Matrix) -> Remark:
        if len(matrix) != SIZE:
            return self.mistake("fast", "one-size")
        others = (matrix, *(turn(matrix) for _, turn in _TURNS))
        if any(np.array_equal(result, other) for other in others):
            return self.mistake("fast", "other-turn")
        wrong = int((result != self._turned(matrix)).sum())
        return Remark("fast", False, f"{wrong:,} of {result.size:,} elements differ from numpy's.")

    def _traffic(self, traffic: Traffic) -> Remark:
        ratios = {way: sectors / traffic.needed for way, sectors in traffic.moved.items()}
        total = sum(ratios.values()) / len(ratios)
        if total <= _MOST_MOVED:
            return Remark("fast", True, f"Warps move {total:.2f} times the sectors that the bytes need.")
        scattered = [way for way, ratio in ratios.items() if ratio > _MOST_MOVED]
        if len(scattered) == 1:
            return self.mistake("fast", f"scattered-{scattered[0]}s")
        return Remark("fast", False, f"Loads and stores are scattered: {total:.1f} times the sectors that are needed.")

    def _banks(self, traffic: Traffic) -> Remark:
        if traffic.passes > traffic.fewest:
            return self.mistake("fast", "bank-conflicts")
        return Remark("fast", True, "No lanes wait for each other at the banks of shared memory.")

    def _order(self, traffic: Traffic) -> Remark:
        if traffic.races:
            return self.mistake("fast", "no-barrier")
        return Remark("fast", True, "No thread reads shared memory that another one may not have written yet.")


def turned(source: str, matrix: Matrix) -> Matrix:
    """Return what a kernel `turn` makes of a matrix on the simulated device.

    Raises:
        AccelMagicError: The kernel does not compile, or stopped with a fault.

    """
    from accel_magic.gpu.adapters import nvrtc

    result, blocks = np.zeros_like(matrix), len(matrix) // 32
    kernel = nvrtc.CpuKernel(nvrtc.compile(source), "turn")
    kernel[(blocks, blocks), (32, 8)](matrix, result, len(matrix))
    return result


def recorded(source: str, matrix: Matrix) -> Traffic:
    """Run a kernel `turn`, and record the address of each access of each thread."""
    from accel_magic.api.tracing import gputrace

    with gputrace("races", device="cpu") as trace:
        turned(source, matrix)
    sites, races = trace.result.sites[["site", "operation", "space"]], trace.result.tools["races"]
    accesses = _requests(trace.result.maps["events"].merge(sites, on="site"))
    unshared = accesses[accesses["space"].isin(_GLOBAL)]
    return Traffic(
        {way: sectors(unshared[unshared["operation"] == way]) for way in ("load", "store")},
        matrix.nbytes // _SECTOR,
        *passes(accesses[accesses["space"] == "shared"]),
        races=bool(races.loc[races["space"] == "shared", "kind"].isin(["race", "unwritten"]).any()),
    )


def _requests(accesses: pd.DataFrame) -> pd.DataFrame:
    """Number the requests: what the lanes of a warp access with the same execution of the same instruction."""
    turn = accesses.groupby(["thread", "site"]).cumcount()
    warp = accesses["thread"] // _WARP
    request = accesses.assign(warp=warp, turn=turn).groupby(["warp", "site", "turn"]).ngroup()
    return accesses.assign(request=request)


def sectors(accesses: pd.DataFrame) -> int:
    """Count the sectors that requests touch; no access is longer than one, and all are aligned."""
    touched = accesses.assign(sector=accesses["address"] // _SECTOR)
    return len(touched.drop_duplicates(["request", "sector"]))


def passes(accesses: pd.DataFrame) -> tuple[int, int]:
    """Count the passes over the banks of shared memory that requests need, and those without conflicts.

    A pass serves 128 bytes, one word of each bank. Lanes of 8 bytes are served in halves of a warp, those of 16 bytes
    in quarters.
    """
    words = (accesses["size"] // _WORD).clip(1).astype("int64")
    part = accesses["thread"] % _WARP * words // _WARP
    each = accesses.assign(part=part).loc[accesses.index.repeat(words)]
    each["word"] = each["address"] // _WORD + each.groupby(level=0).cumcount().astype("uint64")
    distinct = each.drop_duplicates(["request", "part", "word"])
    in_bank = distinct.groupby(["request", "part", distinct["word"] % _BANKS]).size()
    needed = in_bank.groupby(level=[0, 1]).max()
    return int(needed.sum()), len(needed)


EXERCISE = Coalescing
