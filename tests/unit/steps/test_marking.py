"""`accel_magic.step` and its library, without a tracer."""

import pytest

import accel_magic
from accel_magic import c_programs
from accel_magic.errors import MachineError
from accel_magic.probes import usdt
from accel_magic.steps import library, marking


@pytest.fixture
def fresh(monkeypatch):
    """As in a process that has not marked anything yet."""
    monkeypatch.setattr(marking, "_tracers", (1,))
    monkeypatch.setattr(marking, "_fire", None)


def test_the_library_has_one_probe_with_a_semaphore_and_the_number_as_its_argument():
    (probe,) = usdt.probes(library.library())

    assert (probe.provider, probe.name) == ("accel_magic", "step")
    assert probe.semaphore > 0
    (argument,) = probe.arguments
    assert (argument.form, argument.size) == ("register", -8)


def test_the_library_is_the_same_file_in_every_process():
    assert library.library() == library.library()
    assert library.library().name == library.NAME


def test_a_shipped_library_is_used_if_it_was_built_from_these_sources(tmp_path, monkeypatch):
    shipped = tmp_path / library.NAME
    c_programs.build(library.program(), shipped)
    monkeypatch.setattr(library, "SHIPPED", shipped)
    assert library.library() == shipped

    shipped.write_bytes(shipped.read_bytes().replace(b"-sources-", b"-other---"))
    assert library.library() != shipped


def test_while_nobody_traces_a_step_only_reads_the_semaphore(fresh, monkeypatch):
    accel_magic.step(0)  # loads the library
    monkeypatch.setattr(marking, "_mark", None)

    accel_magic.step(1)

    assert list(marking._tracers) == [0]


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, True, 3.0])
def test_numbers_are_taken(fresh, number):
    assert accel_magic.step(number) is None


@pytest.mark.parametrize("number", [None, "x", [], object()])
def test_the_first_call_reports_what_is_not_a_number(fresh, number):
    with pytest.raises((TypeError, ValueError)):
        accel_magic.step(number)


def test_without_a_compiler_and_a_library_nothing_is_marked(fresh, monkeypatch):
    def missing():
        raise MachineError("cannot compile", code="native.no-compiler")

    monkeypatch.setattr(marking, "library", missing)

    accel_magic.step(1)
    accel_magic.step(2)

    assert marking._tracers == (0,)
