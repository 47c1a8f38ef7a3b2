"""`%config`: defaults of every option of every magic."""

import dataclasses

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError

from accel_magic.api.flame_options import FlameOptions
from accel_magic.api.gpu_options import GpuOptions
from accel_magic.api.trace_options import Options
from accel_magic.magics.flame_magic import Flame
from accel_magic.magics.gputrace_magic import GpuTrace
from accel_magic.magics.ktrace_magic import KTrace

OF_EVERY_MAGIC = {"live", "replay"}
OF_CLUSTERS = {"on", "nodes", "require_all"}


@pytest.fixture
def make():
    """Make the magics of a class in a shell of their own."""
    shell = InteractiveShell()
    return lambda kind: kind(shell=shell, parent=shell)


@pytest.mark.parametrize(
    ("magics", "options", "words"),
    [(KTrace, Options, ()), (Flame, FlameOptions, ("probes",)), (GpuTrace, GpuOptions, ("settings", "fill"))],
)
def test_every_option_has_a_default_under_its_own_name(magics, options, words, make):
    configurable = set(magics.class_trait_names(config=True)) - OF_EVERY_MAGIC - OF_CLUSTERS

    assert configurable == {field.name for field in dataclasses.fields(options)} - set(words)
    assert make(magics).defaults() == {}


def test_a_default_reaches_the_trace_and_the_line_overrides_it(make):
    flame = make(Flame)
    flame.rate, flame.off_cpu, flame.all_frames = 499, 2.5, True

    assert flame.tracer(flame.parse(""))[0].options == FlameOptions(rate=499, off_cpu=2.5, all_frames=True)
    assert flame.tracer(flame.parse("--rate 7 --no-off-cpu"))[0].options == FlameOptions(rate=7, all_frames=True)


def test_defaults_of_iaprof_are_for_cells_with_iaprof(make):
    flame = make(Flame)
    flame.interval = 50

    assert flame.tracer(flame.parse(""))[0].options == FlameOptions()
    assert flame.tracer(flame.parse("--xe"))[0].options == FlameOptions(xe=True, interval=50)


def test_a_line_that_reads_maps_by_launch_overrides_a_default_time(make):
    gputrace = make(GpuTrace)
    gputrace.every, gputrace.device = 0.5, "cpu"

    def options(line):
        return gputrace.tracer(gputrace.parse(line))[0].options

    assert options("threadhist") == GpuOptions(every=0.5, device="cpu")
    assert options("threadhist --by-launch") == GpuOptions(by_launch=True, device="cpu")


def test_a_wrong_value_is_rejected_where_it_is_set(make):
    ktrace = make(KTrace)

    with pytest.raises(TraitError):
        ktrace.mode = "bogus"
    with pytest.raises(TraitError):
        ktrace.max_events = "many"
    ktrace.scope = 4321
    assert ktrace.defaults() == {"scope": 4321}
