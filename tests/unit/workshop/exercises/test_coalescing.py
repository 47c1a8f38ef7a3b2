"""Exercise 8: the solution turns every matrix without scattered accesses; each mistake has a sentence of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("llvmlite")

from accel_magic import gputrace
from accel_magic.gpu.adapters import nvrtc
from accel_magic.workshop import material
from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises import coalescing
from accel_magic.workshop.exercises.coalescing import KERNEL, Coalescing, passes, sectors

pytestmark = pytest.mark.component

LAUNCH = (2, 2), (32, 8)


def solution(exercise):
    """Return the answer that the master's solution gives."""
    variables = {"exercise": exercise}
    exec("\n".join(material.solution_code("coalescing")), variables)
    return variables["fast"]


def verdict(exercise, fast):
    """Return the keys of recognized mistakes, and whether all remarks are right."""
    remarks = exercise.judge({"fast": fast})
    return [one.wrong for one in remarks if one.wrong], all(one.right for one in remarks)


def through_rows(place):
    """Store along the rows of the result, and load scattered: `place` is the element's index in `in`."""
    return KERNEL.replace("out[TO(x, y + r)] = in[(y + r) * n + x]", f"out[(y + r) * n + x] = in[{place}]")


@pytest.mark.parametrize("seed", range(4))
def test_the_solution_is_right_for_each_turn(seed):
    exercise = Coalescing(seed)

    assert verdict(exercise, solution(exercise)) == ([], True)


def test_an_answer_is_right_for_all_seeds_with_the_same_turn():
    seed = 3

    assert verdict(Coalescing(seed + coalescing.SAME_CODE), solution(Coalescing(seed))) == ([], True)


@pytest.mark.parametrize("seed", range(4))
def test_the_definition_in_c_and_numpy_are_the_same_turn(seed):
    exercise = Coalescing(seed)
    matrix = exercise.matrix()
    turned, n = np.zeros(matrix.size, np.float32), len(matrix)

    for y, x in np.ndindex(matrix.shape):
        turned[eval(exercise.to.split("TO(x, y) ")[1], {"x": x, "y": y, "n": n})] = matrix[y, x]

    assert np.array_equal(turned.reshape(n, n), exercise._turned(matrix))


MISTAKES = {
    "other-turn": lambda good: good.replace("TO(x + r, y)", "TO(y, x + r)"),
    "one-size": lambda good: good.replace("* n + x]", "* 64 + x]"),
    "scattered-stores": lambda good: good[: good.index("extern") - 1] + KERNEL,
    "scattered-loads": lambda _: through_rows("x * n + y + r"),
    "bank-conflicts": lambda good: good.replace("tile[32][33]", "tile[32][32]"),
    "no-barrier": lambda good: good.replace("__syncthreads();", ""),
}


@pytest.mark.parametrize("key", Coalescing.wrong)
def test_each_mistake_is_recognized(key):
    exercise = Coalescing(0)  # a transposition

    assert verdict(exercise, MISTAKES[key](solution(exercise))) == ([key], False)


def test_an_index_that_leaves_the_larger_matrix_only_is_a_mistake_about_sizes():
    exercise = Coalescing(0)
    outside = solution(exercise).replace("int x =", "if (n > 64) out += 1 << 30; int x =", 1)

    keys, _ = verdict(exercise, outside)

    assert keys == ["one-size"]


@pytest.mark.parametrize(
    ("program", "part"),
    [
        ("int x", "does not compile"),
        (KERNEL, "does not compile"),  # without TO
        ('extern "C" __global__ void other() {}', "no kernel 'turn'"),
        ('extern "C" __global__ void turn() {}', "takes 0 arguments"),
        ('extern "C" __global__ void turn(const float *in, float *out, int n) { out[1 << 30] = 1; }', "out of bounds"),
        ('extern "C" __global__ void turn(const float *in, float *out, int n) {}', "4,096 of 4,096 elements differ"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_a_program_that_cannot_run_gets_its_error_as_a_remark(program, part):
    (remark,) = Coalescing(0).judge({"fast": program})

    assert not remark.right
    assert part in remark.text


@pytest.mark.parametrize("answer", [3, ["int"], b"int", np.zeros(3), object()])
def test_an_answer_that_is_no_text_is_refused(answer):
    with pytest.raises(BadAnswerError, match="should be a text"):
        Coalescing(0).judge({"fast": answer})


def test_sectors_and_passes_agree_with_memtrace_on_a_kernel_with_both_problems():
    exercise = Coalescing(0)
    bare = solution(exercise).replace("[33]", "[32]").replace("out[TO(x + r, y)]", "out[TO(y, x + r)]")
    matrix = exercise.matrix()

    ours = coalescing.recorded(bare, matrix)
    with gputrace("memtrace", device="cpu") as trace:
        nvrtc.CpuKernel(nvrtc.compile(bare), "turn")[LAUNCH](matrix, np.zeros_like(matrix), len(matrix))

    table = trace.result.tools["memtrace"]
    counted = table[table["space"] == "global"].groupby("operation")["sectors"].sum()
    shared = table[table["space"] == "shared"]
    assert ours.moved == {"load": counted["load"], "store": counted["store"]}
    assert (ours.passes, ours.fewest) == (shared["passes"].sum(), shared["fewest"].sum())
    assert ours.moved["store"] == 64 * 64  # a sector for each element
    assert ours.passes > ours.fewest


def accesses(addresses, size):
    """One request of a warp."""
    return pd.DataFrame(
        {"thread": np.arange(len(addresses)), "address": np.array(addresses, np.uint64), "size": size, "request": 0}
    )


@pytest.mark.parametrize(
    ("addresses", "size", "expected"),
    [
        (range(0, 128, 4), 4, (1, 1)),
        ([0] * 32, 4, (1, 1)),  # one word for all
        (range(0, 32 * 128, 128), 4, (32, 1)),  # a column
        (range(0, 32 * 132, 132), 4, (1, 1)),  # a column of padded rows
        (range(0, 256, 8), 8, (2, 2)),
        (range(0, 512, 16), 16, (4, 4)),
        (range(32), 1, (1, 1)),
    ],
)
def test_passes_over_banks(addresses, size, expected):
    assert passes(accesses(addresses, size)) == expected


@pytest.mark.parametrize(
    ("addresses", "expected"), [(range(0, 128, 4), 4), (range(16, 144, 4), 5), (range(0, 32 * 256, 256), 32), ([64], 1)]
)
def test_sectors_of_a_request(addresses, expected):
    assert sectors(accesses(addresses, 4)) == expected


def test_the_notebook_begins_with_the_kernel_that_the_exercise_knows():
    cells = "".join("".join(cell["source"]) for cell in material.student("coalescing")["cells"])

    assert cells.count(KERNEL) == 2
