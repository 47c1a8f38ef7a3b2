"""Overloaded C++ functions as probes."""

import shutil
import subprocess

import pytest

from tests.support.errors import raises
from tests.support.plans import make_plan

SOURCE = """
#define KEEP __attribute__((noinline, noclone, used))
KEEP int add(int a, int b) { return a + b; }
KEEP double add(double a, double b) { return a + b; }
namespace ns {
struct Sum { int all; Sum(int start); int add(const char *text, unsigned count) const; Sum operator+(int more); };
KEEP Sum::Sum(int start) : all(start) {}
KEEP int Sum::add(const char *text, unsigned count) const { return text[0] + count + all; }
KEEP Sum Sum::operator+(int more) { return Sum(all + more); }
template <class T> KEEP T twice(T value) { return value + value; }
template int twice<int>(int);
}
int main() { return 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("overloads")
    (folder / "a.cpp").write_text(SOURCE)
    subprocess.run(["g++", "-O1", "-o", folder / "a", folder / "a.cpp"], check=True)
    return folder / "a"


@pytest.mark.parametrize(
    ("name", "symbols"),
    [
        ("add(int, int)", ["_Z3addii"]),
        ("add(double,double)", ["_Z3adddd"]),
        ("add(*)", ["_Z3adddd", "_Z3addii"]),
        ("ns::Sum::add", ["_ZNK2ns3Sum3addEPKcj"]),
        ("ns::Sum::add(char const*, unsigned int) const", ["_ZNK2ns3Sum3addEPKcj"]),
        ("ns::Sum::operator+(int)", ["_ZN2ns3SumplEi"]),
        ("ns::*::add", ["_ZNK2ns3Sum3addEPKcj"]),
        ("*::twice*", ["_ZN2ns5twiceIiEET_S1_"]),
        ("_Z3addii", ["_Z3addii"]),
    ],
)
@pytest.mark.parametrize("prefix", ["uprobe:", "latency:u:", "ur:"])
def test_a_cpp_function_is_found_by_its_name_as_cpp_has_it(program, name, symbols, prefix):
    plan = make_plan([f"{prefix}{program}:{name}"])
    assert [point.function for point in plan.points] == symbols


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("add(int,int)", {"_Z3adddd", "_ZNK2ns3Sum3addEPKcj"}),
        ("_Z3addii", {"_Z3adddd", "_ZNK2ns3Sum3addEPKcj"}),
        ("add(*)", {"_ZNK2ns3Sum3addEPKcj"}),
        ("ns::Sum::add", {"_Z3adddd", "_Z3addii"}),
    ],
)
@pytest.mark.parametrize("kind", ["u", "ur"])
def test_a_cpp_function_is_excluded_by_its_name_as_cpp_has_it(program, name, left, kind):
    plan = make_plan([f"uprobe:{program}:*add*", f"!{kind}:{program}:{name}"])
    assert {point.function for point in plan.points} == left


def test_constructors_are_found_by_their_name(program):
    (point,) = make_plan([f"uprobe:{program}:ns::Sum::Sum(int)"]).points
    assert {point.function, *point.aliases} == {"_ZN2ns3SumC1Ei", "_ZN2ns3SumC2Ei"}


def test_other_parameters_are_answered_with_the_overloads_that_exist(program):
    with raises("probe.no-match") as caught:
        make_plan([f"uprobe:{program}:add(float)"])
    assert caught.value.fix == "there are add(double, double) [_Z3adddd], add(int, int) [_Z3addii]"
    with raises("probe.no-match"):
        make_plan([f"uprobe:{program}:ns::nothing"])
