"""What a probed file's code is, from small compiled programs: Go code, and functions that switch stacks."""

from __future__ import annotations

import subprocess

import pytest

from accel_magic.errors import ProbeError
from tests.support.errors import raises
from tests.support.plans import make_plan

pytestmark = pytest.mark.component

PLAIN = """
__attribute__((noinline)) int work(int n) { return n + 1; }
int main(void) { return work(-1); }
"""
SWITCHING = """
#include <ucontext.h>
static ucontext_t a, b;
__attribute__((noinline)) int work(int n) { if (n == 3) swapcontext(&a, &b); return n + 1; }
int main(void) { return work(-1); }
"""
GIVING = "int swapcontext(void *a, void *b) { return a == b; } int work(int n) { return n + 1; }"
JUMPING = "void *jump_fcontext(void *a, void *b); int work(int n) { jump_fcontext(&n, 0); return n + 1; }"
AT_RETURN = ("latency:uprobe", "uretprobe")


@pytest.fixture
def marked(compiled):
    """Compile a program that has a section of this name, as Go's linker writes it."""

    def build(section, *options):
        program = compiled(PLAIN, "prog", "-O1", *options)
        subprocess.run(["objcopy", "--add-section", f"{section}={program}.c", program], check=True)
        return program

    return build


@pytest.mark.parametrize("section", [".note.go.buildid", ".gopclntab", ".data.rel.ro.gopclntab"])
@pytest.mark.parametrize("kind", AT_RETURN)
def test_return_probes_are_refused_in_files_with_sections_of_go(section, kind, marked):
    program = marked(section)
    with raises("probe.go-return", ProbeError) as refused:
        make_plan([f"{kind}:{program}:work"])
    assert refused.value.fix == f"write uprobe:{program}:work"
    (point,) = make_plan([f"uprobe:{program}:work"]).points
    assert point.function == "work"


def test_the_fix_is_quoted_for_a_shell_where_it_has_to_be(marked):
    program = marked(".gopclntab")
    with raises("probe.go-return", ProbeError) as refused:
        make_plan([f"latency:uprobe:{program}:wor*"])
    assert refused.value.fix == f"write 'uprobe:{program}:wor*'"


def test_an_address_in_go_code_is_answered_with_a_probe_at_the_entry(marked):
    program = marked(".gopclntab", "-no-pie")
    with raises("probe.offset", ProbeError) as refused:
        make_plan([f"latency:uprobe:{program}:0x401200"])
    assert refused.value.fix.startswith(f"write uprobe:{program}:")


@pytest.mark.parametrize(
    ("source", "options", "names"),
    [
        (SWITCHING, (), "swapcontext"),
        (SWITCHING, ("-static",), "swapcontext"),
        (JUMPING, ("-shared", "-fPIC"), "jump_fcontext"),
    ],
)
@pytest.mark.parametrize("kind", AT_RETURN)
def test_files_that_switch_stacks_come_with_a_warning(source, options, names, kind, compiled):
    program = compiled(source, "prog", "-O1", *options)
    (note,) = make_plan([f"{kind}:{program}:work"]).notes
    assert note.startswith(f"{program} switches stacks ({names}): ")
    assert make_plan([f"uprobe:{program}:work"]).notes == ()


@pytest.mark.parametrize(("source", "options"), [(PLAIN, ()), (GIVING, ("-shared", "-fPIC", "-fno-builtin"))])
def test_files_that_do_not_switch_stacks_themselves_have_no_warning(source, options, compiled):
    program = compiled(source, "prog", "-O1", *options)
    assert make_plan([f"latency:uprobe:{program}:work"]).notes == ()


def test_the_c_library_which_has_these_functions_has_no_warning():
    assert make_plan(["latency:uprobe:libc:malloc"]).notes == ()
