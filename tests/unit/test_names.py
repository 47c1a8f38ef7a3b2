"""C++ functions are shown under the names that people gave them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from accel_magic import names
from accel_magic.names import function_name, readable


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN2ov12InferRequest5inferEv", "ov::InferRequest::infer()"),
        ("_ZNK2ov17ISyncInferRequest10get_inputsEv", "ov::ISyncInferRequest::get_inputs()"),
        ("_Z4spinPFivE", "spin(…)"),  # a parameter with parentheses of its own: int (*)()
        ("_ZN1aclEi", "a::operator()(…)"),
        ("_ZN1acvbEv", "a::operator bool()"),
        ("_ZNO1a4takeEv", "a::take()"),  # && after the parameters
        ("_ZTV1a", "vtable for a"),
        ("malloc", "malloc"),
        ("_Zbogus", "_Zbogus"),
        ("", ""),
    ],
)
def test_a_symbol_is_read_without_its_parameters(symbol, name):
    assert readable(symbol) == name


def test_the_rest_of_a_label_stays():
    label = "_ZN2ov4initEv (uprobe:libopenvino:*init*) #12"

    assert readable(label) == "ov::init() (uprobe:libopenvino:*init*) #12"


def test_symbols_stay_where_there_is_no_runtime_library(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(names.ctypes, "CDLL", missing)
    names._demangler.cache_clear()
    names._demangled.cache_clear()
    try:
        assert readable("_ZN2ov4initEv") == "_ZN2ov4initEv"
    finally:
        names._demangler.cache_clear()
        names._demangled.cache_clear()


@pytest.mark.skipif(not shutil.which("c++filt"), reason="binutils are not installed")
def test_full_names_are_those_of_binutils():
    symbols = ["_ZN3tbb6detail2r114notify_waitersEm", "_ZNKSt6vectorIiSaIiEE4sizeEv", "_ZNSt6vectorIiSaIiEEC1ERKS1_"]
    told = subprocess.run(["c++filt", *symbols], capture_output=True, text=True, check=True).stdout.splitlines()

    assert [names._demangled(symbol) for symbol in symbols] == told


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
def test_a_glob_means_a_symbol_as_it_is_and_as_it_reads(pattern, symbol, meant):
    assert names.means(pattern, symbol) is meant


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("getppid", "getppid"),
        ("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault"),
        ("_ZN2ov12InferRequest5inferEv", "ov::InferRequest::infer"),
        ("_ZN3foo3barEiPKc", "foo::bar"),
        ("_ZNK1aclEi", "a::operator()"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),  # Rust, whose hash ends the name
        ("_Zno_symbol", "_Zno_symbol"),
    ],
)
def test_a_function_is_called_without_its_parameters(symbol, name):
    assert function_name(symbol) == name


@pytest.mark.parametrize(
    ("symbol", "path"),
    [
        # As c++filt of binutils reads them, generic arguments and hashes left out.
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
def test_a_rust_function_is_called_by_its_path(symbol, path):
    assert function_name(symbol) == path


@pytest.mark.parametrize("symbol", ["_R", "_RNv", "_RB_", "_RNvB0_3foo", "_RNvC99short", "_RZ3foo", "_RM" + "B_" * 500])
def test_a_damaged_rust_symbol_stays_as_it_is(symbol):
    assert function_name(symbol) == symbol


def test_a_rust_symbol_cut_anywhere_is_read_or_stays():
    symbol = "_RNvXCs1234_7mycrateRNtB2_3FooINtB2_5TraithDNtB2_1XEL_E3run"
    assert function_name(symbol) == "<&mycrate::Foo as mycrate::Trait>::run"
    for end in range(2, len(symbol)):
        assert function_name(symbol[:end])
