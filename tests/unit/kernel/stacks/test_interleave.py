"""Kernel, native and Python stacks of one moment become one."""

from accel_magic.kernel.stacks.frames import Frame, Kind
from accel_magic.kernel.stacks.interleave import interleave, is_interpreter

LIBPYTHON, PROGRAM, LIBC, EXTENSION = (
    "/opt/lib/libpython3.11.so.1.0",
    "/usr/bin/python3",
    "/lib/libc.so.6",
    "/x/_ext.so",
)


def native(*frames):
    return tuple(Frame(name, Kind.NATIVE, module) for name, module in frames)


PYTHON = (Frame("<module>", Kind.PYTHON, "cell.py", 9), Frame("work", Kind.PYTHON, "cell.py", 3))
KERNEL = (Frame("do_syscall_64", Kind.KERNEL), Frame("ksys_read", Kind.KERNEL))
START = native(("_start", PROGRAM), ("__libc_start_main", LIBC), ("Py_RunMain", LIBPYTHON))
EVALUATION = native(("_PyEval_EvalFrameDefault", LIBPYTHON))


def names(frames):
    return [frame.name for frame in frames]


def test_python_frames_take_the_place_of_the_interpreters():
    user = (*START, *EVALUATION, *native(("read", LIBC)))
    assert interleave(KERNEL, user, PYTHON) == (*PYTHON, *native(("read", LIBC)), *KERNEL)


def test_only_what_the_innermost_python_function_called_stays():
    callback = native(("sort_with", EXTENSION), ("PyObject_CallOneArg", LIBPYTHON))
    user = (*START, *EVALUATION, *callback, *EVALUATION, *native(("compare", EXTENSION), ("memcmp", LIBC)))
    assert names(interleave((), user, PYTHON)) == ["<module>", "work", "compare", "memcmp"]


def test_the_interpreters_own_work_stays_without_its_plumbing_and_nameless_pieces():
    called = native(
        ("PyObject_Vectorcall", LIBPYTHON),
        ("cfunction_vectorcall_FASTCALL", LIBPYTHON),
        ("_PyObject_MakeTpCall.lto_priv.0", LIBPYTHON),
        ("libpython3.11.so.1.0+0x1234", LIBPYTHON),
        ("list_sort_impl", LIBPYTHON),
        ("gc_collect_main", LIBPYTHON),
    )
    assert names(interleave((), (*EVALUATION, *called), PYTHON))[2:] == ["list_sort_impl", "gc_collect_main"]


def test_plumbing_of_another_library_by_the_same_name_stays():
    called = native(("vectorcall_like", EXTENSION), ("_ext.so+0x10", EXTENSION))
    assert names(interleave((), (*EVALUATION, *called), PYTHON))[2:] == ["vectorcall_like", "_ext.so+0x10"]


def test_a_native_stack_that_does_not_reach_the_interpreter_is_what_python_called():
    assert names(interleave(KERNEL, native(("read", LIBC)), PYTHON)) == [
        "<module>",
        "work",
        "read",
        "do_syscall_64",
        "ksys_read",
    ]


def test_without_python_frames_nothing_native_is_left_out():
    user = (*START, *EVALUATION, *native(("read", LIBC)))
    assert interleave(KERNEL, user, ()) == (*user, *KERNEL)
    assert interleave((), (), ()) == ()


def test_an_interpreter_inside_another_program_is_known_by_what_runs_bytecode():
    embedded = "/opt/blender/blender"
    user = native(("main", embedded), ("_PyEval_EvalFrameDefault", embedded), ("cfunction_call", embedded))
    assert names(interleave((), (*user, *native(("draw", embedded))), PYTHON))[2:] == ["draw"]


def test_interpreters_are_known_by_their_files():
    known = ("python3", "/usr/bin/python3.12", "/opt/python3.13t", "libpython3.11.so.1.0", "/x/libpython3.so", "python")
    assert all(map(is_interpreter, known))
    others = (
        "/x/libboost_python311.so",
        "python-helper",
        "libpythonic.so",
        "_pyopenvino.so",
        "",
        "/python3.11/site.so",
    )
    assert not any(map(is_interpreter, others))
