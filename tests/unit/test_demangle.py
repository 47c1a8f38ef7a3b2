"""Demangling of C++ and Rust symbols."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from accel_magic import demangle
from accel_magic.demangle import function_name, readable


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN2ov12InferRequest5inferEv", "ov::InferRequest::infer()"),
        ("_ZNK2ov17ISyncInferRequest10get_inputsEv", "ov::ISyncInferRequest::get_inputs()"),
        ("_Z4spinPFivE", "spin(…)"),  # a parameter with its own parentheses: int (*)()
        ("_ZN1aclEi", "a::operator()(…)"),
        ("_ZN1acvbEv", "a::operator bool()"),
        ("_ZNO1a4takeEv", "a::take()"),  # && after the parameters
        ("_ZTV1a", "vtable for a"),
        ("_ZN1p6middle17h074512678f87e7c2E", "p::middle"),
        ("_ZN34_$LT$p..Sq$u20$as$u20$p..Shape$GT$4area17h25344d9076aa0d8cE", "<p::Sq as p::Shape>::area"),
        ("_ZN4core3ptr37drop_in_place$LT$$RF$$u5b$u8$u5d$$GT$17h0123456789abcdefE", "core::ptr::drop_in_place<&[u8]>"),
        ("_RNvC1p6middle", "p::middle"),
        ("_RNvXs_C1pNtB4_2SqNtB4_5Shape4area", "<p::Sq as p::Shape>::area"),
        ("_Rbogus", "_Rbogus"),
        ("malloc", "malloc"),
        ("_Zbogus", "_Zbogus"),
        ("", ""),
        ("_ZTSN4dpnp7kernels20linear_sequence_stepIfEE", "dpnp::kernels::linear_sequence_step<float>"),  # SYCL
    ],
)
def test_a_symbol_is_shown_without_its_parameters(symbol, name):
    assert readable(symbol) == name


def test_the_rest_of_a_label_is_unchanged():
    label = "_ZN2ov4initEv (uprobe:libopenvino:*init*) #12"

    assert readable(label) == "ov::init() (uprobe:libopenvino:*init*) #12"


@pytest.fixture
def fresh(monkeypatch):
    """A demangler with an empty cache and a new process."""
    demangle.end()
    monkeypatch.setattr(demangle, "_known", {})
    monkeypatch.setattr(demangle, "_killed", 0)
    function_name.cache_clear()
    yield demangle
    demangle.end()
    function_name.cache_clear()


def test_symbols_are_left_mangled_without_a_runtime_library(monkeypatch, fresh):
    monkeypatch.setattr(demangle, "_LIBRARY", "libnowhere.so.6")
    assert readable("_ZN2ov4initEv") == "_ZN2ov4initEv"


def test_symbols_are_left_mangled_if_no_process_can_be_started(monkeypatch, fresh):
    monkeypatch.setattr(demangle.sys, "executable", "/nowhere/python")
    assert readable("_ZN2ov4initEv") == "_ZN2ov4initEv"


def doubling(steps):
    """A C++ symbol whose name doubles with each step: pair<int, int>, a pair of two of these, and so on."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "_Z1fSt4pairIiiE" + "".join(f"S_IS{digits[at]}_S{digits[at]}_E" for at in range(steps))


def number(value):
    """Encode a number as in Rust symbols: in base 62, followed by `_`."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    text, value = "_", value - 1
    while value >= 0:
        text, value = digits[value % 62] + text, value // 62 or -1
    return text


def doubling_in_rust(steps):
    """The same in Rust: each tuple has the previous tuple twice."""
    text, before = "NvMC1aTTllE", 7
    for _ in range(steps):
        before, text = len(text), f"{text}TB{number(before)}B{number(before)}E"
    return f"_R{text}E1f"


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from accel_magic.demangle import function_name, readable
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(all(name(symbol) == symbol for symbol in sys.argv[1:] for name in (function_name, readable)))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize(
    "symbol",
    [
        *map(doubling, (20, 22, 30, 34)),
        *map(doubling_in_rust, (14, 16, 20, 40)),
        "_R" + "Nv" * 2000,
        "_RNvMC1a" + "R" * 2000 + "h1f",
        "_RNvMC1aT" + "s" * 1000 + "TllE" + "B_" * 4000 + "E1f",
        "_RNvC" + "s" + "z" * 20000 + "_1a1f",
        "_ZN" + "1a" * 30000 + "1fEv",
    ],
    ids=lambda symbol: f"{symbol[:12]}_{len(symbol)}",
)
def test_an_exploding_name_is_left_mangled_and_takes_little_time_and_memory(symbol):
    done = subprocess.run([sys.executable, "-c", LIMITED, symbol], capture_output=True, text=True, check=True)
    kept, grown_mib = done.stdout.split()
    assert kept == "True"
    assert int(grown_mib) < 50


def test_a_short_name_of_that_form_is_demangled():
    assert demangle.means("f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >)", doubling(1))
    assert function_name(doubling_in_rust(1)) == "<((i32, i32), ((i32, i32), (i32, i32)))>::f"
    assert function_name("_RNvC" + "s" + "z" * 10 + "_1a1f") == "a::f"


def test_other_names_of_the_same_batch_as_an_exploding_one_are_demangled(fresh):
    good, bad = ["_ZN2ov4initEv", "_ZN2ov4stopEv", "_ZN2ov4pollEv"], doubling(30)
    demangle.learn([good[0], bad, good[1], bad + "x", good[2]])
    assert [function_name(symbol) for symbol in good] == ["ov::init", "ov::stop", "ov::poll"]
    assert function_name(bad) == bad


def test_exploding_names_kill_at_most_a_limited_number_of_processes(fresh, monkeypatch):
    monkeypatch.setattr(demangle, "_MOST_KILLED", 3)
    started = []
    start = demangle._started
    monkeypatch.setattr(demangle, "_started", lambda: started.append(start()) or started[-1])
    demangle.learn(["_ZN2ov4initEv", *(doubling(steps) for steps in range(24, 34)), "_ZN2ov4stopEv"])

    assert len(started) == 3
    assert [function_name(symbol) for symbol in ("_ZN2ov4initEv", "_ZN2ov4stopEv")] == ["ov::init", "_ZN2ov4stopEv"]
    assert len(started) == 3


def test_a_process_that_hangs_or_has_ended_is_replaced(fresh, monkeypatch):
    assert function_name("_ZN2ov4initEv") == "ov::init"
    first = demangle.helper_pid()
    os.kill(first, signal.SIGSTOP)
    monkeypatch.setattr(demangle, "_SILENCE_S", 0.5)
    assert function_name("_ZN2ov4stopEv") == "_ZN2ov4stopEv"
    monkeypatch.undo()
    assert function_name("_ZN2ov4pollEv") == "ov::poll"
    second = demangle.helper_pid()
    os.kill(second, signal.SIGKILL)
    os.waitid(os.P_PID, second, os.WEXITED | os.WNOWAIT)
    assert function_name("_ZN2ov4waitEv") == "ov::wait"
    assert len({first, second, demangle.helper_pid()}) == 3


def test_after_an_interrupt_during_demangling_later_names_are_correct(fresh, monkeypatch):
    assert function_name("_ZN2ov4initEv") == "ov::init"
    answers = demangle._answers

    def interrupted(*arguments):
        answers(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(demangle, "_answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            function_name("_ZN2ov4stopEv")
    assert [function_name(symbol) for symbol in ("_ZN2ov4pollEv", "_ZN2ov4stopEv")] == ["ov::poll", "ov::stop"]


def test_more_names_than_fit_into_a_request_are_demangled(fresh):
    symbols = [f"_ZN{len(name)}{name}1fEv" for name in (f"n{at:0200}" for at in range(400))]
    demangle.learn(symbols)
    assert [function_name(symbol) for symbol in symbols] == [f"n{at:0200}::f" for at in range(400)]


def test_a_forked_child_starts_its_own_process_and_does_not_touch_the_parents(fresh):
    assert function_name("_ZN2ov4initEv") == "ov::init"
    child = os.fork()
    if not child:
        right = function_name("_ZN2ov4stopEv") == "ov::stop"
        demangle.end()
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    pid = demangle.helper_pid()
    assert function_name("_ZN2ov4pollEv") == "ov::poll"
    assert demangle.helper_pid() == pid


@pytest.mark.parametrize(
    ("symbols", "names"),
    [
        (["_ZTSN4dpnp7kernels3addIfEE", "_ZTSN4dpnp7kernels3mulIfEE"], ["add<…>", "mul<…>"]),
        (["_ZN1a3addEv", "_ZN1b3addEv"], ["a::add()", "b::add()"]),
        (
            ["_ZTSN4dpnp7kernels3addIfEE", "_ZTSN4dpnp7kernels3addIdEE"],
            ["dpnp::kernels::add<float>", "dpnp::kernels::add<double>"],
        ),
        (["_ZTSN1a1k3addIfEE", "_ZTSN1b1m3addIfEE"], ["k::add<…>", "m::add<…>"]),
        (["add", "matmul_kernel_0d1d2d"], ["add", "matmul_kernel_0d1d2d"]),
    ],
)
def test_short_names_are_those_of_one_symbol(symbols, names):
    assert list(demangle.short_names(symbols).values()) == names


@pytest.mark.skipif(not shutil.which("c++filt"), reason="binutils are not installed")
def test_full_names_equal_those_of_binutils():
    symbols = ["_ZN3tbb6detail2r114notify_waitersEm", "_ZNKSt6vectorIiSaIiEE4sizeEv", "_ZNSt6vectorIiSaIiEEC1ERKS1_"]
    expected = subprocess.run(["c++filt", *symbols], capture_output=True, text=True, check=True).stdout.splitlines()

    assert [demangle._demangled(symbol) for symbol in symbols] == expected


@pytest.mark.parametrize(
    ("pattern", "symbol", "meant"),
    [
        ("*", "anything", True),
        ("_Z9vectorAdd*", "_Z9vectorAddPKfS0_Pf", True),
        ("vectorAdd", "_Z9vectorAddPKfS0_Pf", True),
        ("vectorAdd(float const*, *", "_Z9vectorAddPKfS0_Pf", True),
        ("scale<float>", "_Z5scaleIfEvPT_", True),
        ("scale*", "_Z5scaleIfEvPT_", True),
        ("vector", "_Z9vectorAddPKfS0_Pf", False),
        ("VectorAdd", "_Z9vectorAddPKfS0_Pf", False),
        ("add*", "add_kernel", True),
    ],
)
def test_a_glob_matches_a_symbol_mangled_or_demangled(pattern, symbol, meant):
    assert demangle.means(pattern, symbol) is meant


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("getppid", "getppid"),
        ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"),
        ("_ZN2ov12InferRequest5inferEv", "ov::InferRequest::infer"),
        ("_ZN3foo3barEiPKc", "foo::bar"),
        ("_ZNK1aclEi", "a::operator()"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),  # Rust, with a hash at the end
        ("_Zno_symbol", "_Zno_symbol"),
    ],
)
def test_a_function_is_named_without_its_parameters(symbol, name):
    assert function_name(symbol) == name


@pytest.mark.parametrize(
    ("symbol", "path"),
    [
        # Output of binutils' c++filt, without generic arguments and hashes.
        (
            "_RNvMs_NtNtCsalM65ksrrJu_3std6thread6threadNtB4_6Thread12park_timeout",
            "<std::thread::thread::Thread>::park_timeout",
        ),
        ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
        ("_RNCNvCs1234_7mycrate4main0B3_", "mycrate::main::{closure}"),
        ("_RINvCs1234_7mycrate3addlEB2_", "mycrate::add"),
        ("_RNvXCs1234_7mycrateRNtB2_3FooNtB2_5Trait3run", "<&mycrate::Foo as mycrate::Trait>::run"),
        ("_RNvYSTlhENtCs1234_7mycrate5Trait3run", "<[(i32, u8)] as mycrate::Trait>::run"),
        ("_RNvYDNtCs1234_7mycrate3AnyEL_NtB5_5Trait3run", "<dyn mycrate::Any as mycrate::Trait>::run"),
        ("_RNvYFUKCmEbNtCs1234_7mycrate5Trait3run", "<fn(u32) -> bool as mycrate::Trait>::run"),
        ("_RNvYAhj10_NtCs1234_7mycrate5Trait3run.llvm.123", "<[u8; _] as mycrate::Trait>::run"),
        ("_RNvC7mycrateu8gdel_5qa", "mycrate::gödel"),
    ],
)
def test_a_rust_function_is_named_by_its_path(symbol, path):
    assert function_name(symbol) == path


@pytest.mark.parametrize("symbol", ["_R", "_RNv", "_RB_", "_RNvB0_3foo", "_RNvC99short", "_RZ3foo", "_RM" + "B_" * 500])
def test_a_damaged_rust_symbol_is_left_mangled(symbol):
    assert function_name(symbol) == symbol


def test_a_rust_symbol_truncated_anywhere_is_demangled_or_left_mangled():
    symbol = "_RNvXCs1234_7mycrateRNtB2_3FooINtB2_5TraithDNtB2_1XEL_E3run"
    assert function_name(symbol) == "<&mycrate::Foo as mycrate::Trait>::run"
    for end in range(2, len(symbol)):
        assert function_name(symbol[:end])


def test_names_of_overloads_are_distinct():
    assert demangle.distinct(["_Z3addii", "_Z3adddd", "malloc", "_ZN2ns1fEv", "_Z3addii"]) == [
        "add(int, int)",
        "add(double, double)",
        "malloc",
        "ns::f()",
        "add(int, int)",
    ]
    assert demangle.distinct(["_Z3addii"]) == ["add(…)"]
    assert demangle.distinct(["_ZN1SC1Ei", "_ZN1SC2Ei"]) == ["_ZN1SC1Ei", "_ZN1SC2Ei"]
    assert demangle.distinct(["p: _Z3addii", "p: _Z3adddd"]) == ["p: add(int, int)", "p: add(double, double)"]
    assert demangle.distinct([]) == []
