"""Attach points in the names of sections."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProgramError
from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.object_model import EbpfProgram
from accel_magic.gpu.program.sections import Attach, Where, attach_of, is_gpu
from tests.support.errors import raises

EVERY = frozenset({Operation.LOAD, Operation.STORE, Operation.ATOMIC, Operation.ASYNC_COPY})


def at(section, **options):
    return attach_of(EbpfProgram("f", section, ()), **options)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("gpu/entry", Attach(Where.ENTRY)),
        ("gpu/exit", Attach(Where.EXIT)),
        ("gpu/exit/matmul*", Attach(Where.EXIT, "matmul*")),
        ("gpu/entry/void add<int>(int*, int)", Attach(Where.ENTRY, "void add<int>(int*, int)")),
        ("gpu/entry/operator/(A, B)", Attach(Where.ENTRY, "operator/(A, B)")),
        ("gpu/exit/", Attach(Where.EXIT)),
        ("gpu/memory", Attach(Where.MEMORY, operations=EVERY)),
        ("gpu/load", Attach(Where.MEMORY, operations=frozenset({Operation.LOAD}))),
        ("gpu/store/_Z3addPf", Attach(Where.MEMORY, "_Z3addPf", frozenset({Operation.STORE}))),
        ("gpu/atomic", Attach(Where.MEMORY, operations=frozenset({Operation.ATOMIC}))),
        ("gpu/async", Attach(Where.MEMORY, operations=frozenset({Operation.ASYNC_COPY}))),
        ("gpu/shared", Attach(Where.MEMORY, operations=EVERY, spaces=frozenset({Space.SHARED}))),
        ("gpu.warp/unshared/k", Attach(Where.MEMORY, "k", EVERY, per="warp", spaces=set(Space) - {Space.SHARED})),
        ("gpu/barrier", Attach(Where.BARRIER)),
        ("gpu/fence", Attach(Where.FENCE)),
        ("gpu/sync", Attach(Where.SYNC)),
        ("gpu.warp/fence/k*", Attach(Where.FENCE, "k*", per="warp")),
        ("gpu.thread/fence", Attach(Where.FENCE, per="thread")),
        ("gpu/branch/k?", Attach(Where.BRANCH, "k?")),
        ("gpu/function/*sin*", Attach(Where.FUNCTION, "*sin*")),
        ("gpu/function/_Z1fv/matmul*", Attach(Where.FUNCTION, "_Z1fv", kernels="matmul*")),
        ("gpu/function_exit/_Z1fv", Attach(Where.FUNCTION_EXIT, "_Z1fv")),
        ("gpu.warp/exit/matmul*", Attach(Where.EXIT, "matmul*", per="warp")),
        ("gpu.thread/memory", Attach(Where.MEMORY, operations=EVERY, per="thread")),
        ("gpu.warp/function/f/k", Attach(Where.FUNCTION, "f", kernels="k", per="warp")),
        ("kprobe/_Z9vectorAddPKfS0_Pf", Attach(Where.ENTRY, "_Z9vectorAddPKfS0_Pf")),
        ("kretprobe/_Z9vectorAddPKfS0_Pf", Attach(Where.EXIT, "_Z9vectorAddPKfS0_Pf")),
        ("kprobe/cuda__Z9vectorAddPKfS0_Pf", Attach(Where.ENTRY, "_Z9vectorAddPKfS0_Pf")),
        ("kretprobe/cuda_matmul", Attach(Where.EXIT, "matmul")),
        ("kprobe/__memcapture", Attach(Where.MEMORY, operations=EVERY)),
        ("kprobe/__directly_run", Attach(Where.ENTRY, "__directly_run")),
    ],
)
def test_sections_of_gpu_programs_name_an_attach_point(section, expected):
    assert at(section) == expected
    assert is_gpu(EbpfProgram("f", section, ()))


@pytest.mark.parametrize(
    "section",
    [
        "kprobe/do_sys_open",
        "kretprobe/do_sys_open",
        "kprobe/__x64_sys_openat",
        "kprobe/__memcpy",
        "kprobe.multi/tcp_*",
        "kprobe",
        "uprobe",
        "uprobe/libcudart.so:cudaLaunchKernel",
        "uretprobe/./vec_add:_Z16cudaLaunchKernelIcE9cudaErrorPT_",
        "uprobe.s//usr/lib/libc.so.6:malloc",
        "usdt/libpython3.so:python:gc__start",
        "tracepoint/sched/sched_switch",
        "tp/sched/sched_switch",
        "raw_tp/sys_enter",
        "tp_btf/sched_switch",
        "fentry/do_unlinkat",
        "fexit.s/do_unlinkat",
        "ksyscall/openat",
        "perf_event",
    ],
)
def test_sections_of_cpu_programs_are_not_for_the_gpu(section):
    assert at(section) is None
    assert not is_gpu(EbpfProgram("f", section, ()))


def test_probes_of_plain_kernel_names_are_for_the_gpu_if_the_caller_names_them():
    assert at("kprobe/matmul_kernel") is None
    assert at("kprobe/matmul_kernel", gpu_names="matmul_*") == Attach(Where.ENTRY, "matmul_kernel")
    assert at("kretprobe/matmul_kernel", gpu_names="matmul_kernel") == Attach(Where.EXIT, "matmul_kernel")
    assert at("kprobe/do_sys_open", gpu_names="matmul_*") is None
    assert is_gpu(EbpfProgram("f", "kprobe/add", ()), gpu_names="add")


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ("gpu/entri", "did you mean gpu/entry?"),
        ("gpu.warp/memroy/k*", "did you mean gpu.warp/memory?"),
        ("gpu.wrap/exit", "did you mean gpu.warp?"),
        ("gpu", "gpu/"),
        ("gpu/", "gpu/"),
        ("gpu/fense", "did you mean gpu/fence?"),
        ("gpu/zzzz", "gpu/zzzz"),
        ("gpu/function", "it does not name a device function"),
        ("gpu.warp/function_exit//k", "it does not name a device function"),
        ("kretprobe/__memcapture", "memory operations do not return"),
        ("krpobe/do_exit", "did you mean kprobe?"),
        ("xdp", "neither an attach point in GPU code nor a kind of probe on the CPU"),
        ("", "neither an attach point in GPU code nor a kind of probe on the CPU"),
    ],
)
def test_the_error_for_an_unknown_section_names_the_nearest_known_one(section, why):
    with raises("gpu.bad-section", ProgramError) as caught:
        at(section)
    assert f'SEC("{section}")' in caught.value.what
    assert why in caught.value.why
    assert caught.value.fix


def test_the_error_for_an_unknown_section_names_all_known_sections():
    with raises("gpu.bad-section", ProgramError) as caught:
        at("gpu/zzzz")
    for place in ("entry", "exit", "memory", "load", "store", "atomic", "async", "barrier", "fence", "branch"):
        assert f"gpu/{place}," in caught.value.fix
    for place in ("function", "function_exit"):
        assert f"gpu/{place}/NAME" in caught.value.fix
