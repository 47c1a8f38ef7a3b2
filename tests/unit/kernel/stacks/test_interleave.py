"""Merging the kernel, native and Python stacks of one moment."""

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.interleave import interleave, is_interpreter

LIBPYTHON, PROGRAM, LIBC, EXTENSION = (
    "/opt/lib/libpython3.11.so.1.0",
    "/usr/bin/python3",
    "/lib/libc.so.6",
    "/x/_ext.so",
)


def native(*frames):
    return tuple(Frame(name, FrameKind.NATIVE, module) for name, module in frames)


PYTHON = (Frame("<module>", FrameKind.PYTHON, "cell.py", 9), Frame("work", FrameKind.PYTHON, "cell.py", 3))
KERNEL = (Frame("do_syscall_64", FrameKind.KERNEL), Frame("ksys_read", FrameKind.KERNEL))
START = native(("_start", PROGRAM), ("__libc_start_main", LIBC), ("Py_RunMain", LIBPYTHON))
EVALUATION = native(("_PyEval_EvalFrameDefault", LIBPYTHON))


def names(frames):
    return [frame.name for frame in frames]


def test_python_frames_replace_the_interpreters_frames():
    user = (*START, *EVALUATION, *native(("read", LIBC)))
    assert interleave(KERNEL, user, PYTHON) == (*PYTHON, *native(("read", LIBC)), *KERNEL)


def test_only_native_frames_called_by_the_innermost_python_function_remain():
    callback = native(("sort_with", EXTENSION), ("PyObject_CallOneArg", LIBPYTHON))
    user = (*START, *EVALUATION, *callback, *EVALUATION, *native(("compare", EXTENSION), ("memcmp", LIBC)))
    assert names(interleave((), user, PYTHON)) == ["<module>", "work", "compare", "memcmp"]


def test_interpreter_functions_remain_without_plumbing_and_unnamed_frames():
    called = native(
        ("PyObject_Vectorcall", LIBPYTHON),
        ("cfunction_vectorcall_FASTCALL", LIBPYTHON),
        ("_PyObject_MakeTpCall.lto_priv.0", LIBPYTHON),
        ("libpython3.11.so.1.0+0x1234", LIBPYTHON),
        ("list_sort_impl", LIBPYTHON),
        ("gc_collect_main", LIBPYTHON),
    )
    assert names(interleave((), (*EVALUATION, *called), PYTHON))[2:] == ["list_sort_impl", "gc_collect_main"]


def test_functions_of_other_libraries_named_like_plumbing_remain():
    called = native(("vectorcall_like", EXTENSION), ("_ext.so+0x10", EXTENSION))
    assert names(interleave((), (*EVALUATION, *called), PYTHON))[2:] == ["vectorcall_like", "_ext.so+0x10"]


def test_a_native_stack_that_does_not_reach_the_interpreter_was_called_by_python():
    assert names(interleave(KERNEL, native(("read", LIBC)), PYTHON)) == [
        "<module>",
        "work",
        "read",
        "do_syscall_64",
        "ksys_read",
    ]


def test_without_python_frames_all_native_frames_remain():
    user = (*START, *EVALUATION, *native(("read", LIBC)))
    assert interleave(KERNEL, user, ()) == (*user, *KERNEL)
    assert interleave((), (), ()) == ()


def test_an_embedded_interpreter_is_recognized_by_its_evaluation_function():
    embedded = "/opt/blender/blender"
    user = native(("main", embedded), ("_PyEval_EvalFrameDefault", embedded), ("cfunction_call", embedded))
    assert names(interleave((), (*user, *native(("draw", embedded))), PYTHON))[2:] == ["draw"]


def test_interpreters_are_recognized_by_file_name():
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
