"""Exercise 9: the solution splits no warp and changes no result; each mistake has a sentence of its own."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic import gputrace
from accel_magic.gpu.adapters import nvrtc
from accel_magic.workshop import material
from accel_magic.workshop.exercise import BadAnswerError
from accel_magic.workshop.exercises import divergence
from accel_magic.workshop.exercises.divergence import KERNEL, SAME_CODE, THREADS, Divergence

pytestmark = pytest.mark.component

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
BY_TWELVE = "blockIdx.x * 384 + threadIdx.x % 32 * 12 + threadIdx.x / 32"


def start(exercise):
    return exercise.conditions + KERNEL


def solution(exercise):
    """Return the answer that the master's solution gives."""
    variables = {"exercise": exercise, "whole": start(exercise)}
    exec("\n".join(material.solution_code("divergence")), variables)
    return variables["whole"]


def both_sides():
    """Compute both sides of each branch, and select."""
    selected = KERNEL
    for condition in ("FIRST", "SECOND"):
        yes, no = (f"{side}{condition[0].lower()}" for side in ("yes_", "no_"))
        before, _, after = selected.partition(f"    if ({condition}(i))\n")
        first, _, second = after.partition("    else\n")
        second, _, rest = second.partition("\n")
        rounds = [one.replace("v", name) for one, name in ((first, yes), (second, no))]
        chosen = f"    v = {condition}(i) ? {yes} : {no};\n"
        selected = f"{before}    unsigned {yes} = v, {no} = v;\n{rounds[0]}{rounds[1]}\n{chosen}{rest}"
    return selected


def verdict(exercise, whole):
    """Return the keys of recognized mistakes, and whether all remarks are right."""
    remarks = exercise.judge({"whole": whole})
    return [one.wrong for one in remarks if one.wrong], all(one.right for one in remarks)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 59])
def test_the_solution_is_right_for_each_condition(seed):
    exercise = Divergence(seed)

    assert verdict(exercise, solution(exercise)) == ([], True)


@pytest.mark.parametrize("seed", [7, 44])
def test_an_answer_is_right_for_all_seeds_with_the_same_definitions(seed):
    fresh = Divergence(seed + SAME_CODE)

    assert fresh.conditions == Divergence(seed).conditions
    assert verdict(fresh, solution(Divergence(seed))) == ([], True)


MISTAKES = {
    "still-split": lambda begun: begun,
    "both-sides": lambda begun: begun.replace(KERNEL, both_sides()),
    "permuted": lambda begun: begun.replace("x[i] = v", f"x[{BY_TWELVE}] = v"),
    "other-condition": lambda begun: begun.replace("FIRST(i))", "i / 32 % 2)").replace("SECOND(i))", "i / 32 % 2)"),
    "not-computed": lambda begun: begun.replace("unsigned v", "if (i >= n / 2) return;\n    unsigned v"),
    "one-size": lambda begun: begun.replace(INDEX, f"{INDEX} if (i >= {len(Divergence(0).numbers())}) return;"),
}


@pytest.mark.parametrize("key", Divergence.wrong)
def test_each_mistake_is_recognized(key):
    exercise = Divergence(0)

    assert verdict(exercise, MISTAKES[key](start(exercise))) == ([key], False)


def test_a_fault_with_more_elements_only_is_a_mistake_about_sizes():
    exercise = Divergence(0)
    outside = solution(exercise).replace(
        "unsigned v", f"if (n > {len(exercise.numbers())}) x += 1 << 28; unsigned v", 1
    )

    assert verdict(exercise, outside) == (["one-size"], False)


@pytest.mark.parametrize(
    ("program", "part"),
    [
        ("int x", "does not compile"),
        (KERNEL, "does not compile"),  # without FIRST
        ('extern "C" __global__ void other() {}', "no kernel 'work'"),
        ('extern "C" __global__ void work() {}', "parameter"),
        ('extern "C" __global__ void work(unsigned *x, int n) { x[1 << 30] = 1; }', "out of bounds"),
        ('extern "C" __global__ void work(unsigned *x, int n) { x[threadIdx.x] ^= 5; }', "differ from numpy's"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_a_program_that_cannot_run_gets_its_error_as_a_remark(program, part):
    remarks = Divergence(0).judge({"whole": program})

    assert not remarks[-1].right
    assert part in remarks[-1].text or remarks[-1].wrong == "not-computed"


@pytest.mark.parametrize("answer", [3, ["int"], b"int", np.zeros(3), object()])
def test_an_answer_that_is_no_text_is_refused(answer):
    with pytest.raises(BadAnswerError, match="should be a text"):
        Divergence(0).judge({"whole": answer})


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_every_warp_is_split_by_one_of_the_conditions_and_none_by_the_other(seed):
    exercise = Divergence(seed)
    i = np.arange(4 * THREADS).reshape(-1, 32)

    split = [(condition(i).any(1) & ~condition(i).all(1)).mean() for _, condition in exercise._conditions]

    assert sorted(split) == [0, 1]


@pytest.mark.parametrize("seed", [0, 3])
def test_split_warps_agree_with_branchdiv_and_with_the_conditions(seed):
    exercise = Divergence(seed)
    numbers = exercise.numbers(4)
    program = start(exercise).replace(INDEX, f"{INDEX} i = blockIdx.x % 2 ? i : {BY_TWELVE};")

    ours = divergence.run(program, numbers)
    with gputrace("branchdiv", device="cpu") as trace:
        nvrtc.CpuKernel(nvrtc.compile(program), "work")[len(numbers) // THREADS, THREADS](numbers, len(numbers))

    assert ours.split == trace.result.tools["branchdiv"]["share"].max() == 0.5


def test_the_notebook_begins_with_the_kernel_that_the_exercise_knows():
    cells = "".join("".join(cell["source"]) for cell in material.student("divergence")["cells"])

    assert cells.count(KERNEL) == 2
