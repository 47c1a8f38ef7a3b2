"""C++ functions are shown under the names that people gave them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from accel_magic import names
from accel_magic.names import readable


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
