"""Failures at the end of a trace: the user's results and errors, and all counts, are kept."""

import html
import os
import signal
import subprocess
import time

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import accel_magic
from accel_magic import RecordingError, load_ipython_extension, trace, unload_ipython_extension
from accel_magic.api.replay import Replay
from accel_magic.recording.reader import reader_client

pytestmark = pytest.mark.live

GETPPID = "t:syscalls:sys_enter_getppid"
PROGRAM = """
BPF_HASH(counts, u32, u64);
BPF_RINGBUF_OUTPUT(out, 8);
TRACEPOINT_PROBE(syscalls, sys_enter_getppid)
{
    u32 key = bpf_get_current_pid_tgid() >> 32;
    u64 one = 1;
    counts.increment(key);
    out.ringbuf_output(&one, sizeof(one), 0);
    return 0;
}
"""


def kill_reader():
    """Kill the reader process as the OOM killer does, and wait until it is gone."""
    process = reader_client.shared()
    os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while process.alive and time.monotonic() < end:
        time.sleep(0.01)
    assert not process.alive


@pytest.fixture
def shell():
    """Run cells in a shell with the extension; return their results and the output."""
    ipython = InteractiveShell.instance(colors="nocolor")
    load_ipython_extension(ipython)
    ipython.user_ns.update(os=os, kill_reader=kill_reader)

    def run_cell(code):
        with capture_output(display=False) as captured:
            done = ipython.run_cell(code)
        return done, captured.stdout + captured.stderr

    run_cell.namespace = ipython.user_ns
    yield run_cell
    unload_ipython_extension(ipython)
    InteractiveShell.clear_instance()


@pytest.fixture
def full(tmp_path):
    """A folder on a one-page file system: files can be created, but nothing fits in them."""
    folder = tmp_path / "full"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this process may mount nothing")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def assert_next_trace_works():
    with trace(GETPPID) as t:
        os.getppid()
    assert (t.result.hits, t.result.recorded, t.result.lost) == (1, 1, 0)


class TestWithoutReader:
    """The reader process dies while a trace runs."""

    def test_the_counts_and_latencies_are_exact_and_all_events_are_counted_as_lost(self, build, run, left_behind):
        program = build("naps")
        with trace(GETPPID, f"latency:uprobe:{program}:nap") as t:
            for _ in range(1000):
                os.getppid()
            run(program, 2, 25, 1)
            kill_reader()
            for _ in range(500):
                os.getppid()

        result = t.result
        assert result.counts["hits"].droplevel("probe").to_dict() == {"sys_enter_getppid": 1500, "nap": 50}
        assert result.counts["lost"].droplevel("probe").to_dict() == {"sys_enter_getppid": 1500, "nap": 50}
        assert result.latency["count"].tolist() == [50]
        assert (result.recorded, len(result.events), result.lost) == (0, 0, 1550)
        assert result.recording.outcome == "ok"
        (note,) = [note for note in result.recording.notes if "reader process" in note]
        assert "lost" in note
        assert "1,550 lost" in repr(result)
        assert note in repr(result)
        assert note in html.unescape(result._repr_mimebundle_()["text/html"])
        assert left_behind() == set()
        assert_next_trace_works()

    def test_a_trace_without_events_loses_nothing(self):
        with trace(GETPPID, mode="count") as t:
            os.getppid()
            kill_reader()
            os.getppid()

        assert (t.result.hits, t.result.lost) == (2, 0)
        assert any("reader process" in note for note in t.result.recording.notes)
        assert t.result.rates().sum().sum() > 0

    def test_an_elapsed_duration_still_ends_the_trace_at_that_time(self):
        with trace(GETPPID, duration=0.2) as t:
            os.getppid()
            end = time.monotonic() + 60
            while t.attached.parts.kernel.control["enabled"][0] and time.monotonic() < end:
                time.sleep(0.01)
            kill_reader()
            time.sleep(0.3)
            os.getppid()

        assert t.result.hits == 1
        assert t.result.duration_s == 0.2

    def test_the_users_own_error_propagates(self, left_behind):
        with pytest.raises(ZeroDivisionError), trace(GETPPID, stacks=True) as t:
            os.getppid()
            kill_reader()
            1 / 0  # noqa: B018

        assert (t.result.hits, t.result.lost, t.result.recording.outcome) == (1, 1, "error")
        assert left_behind() == set()

    def test_the_maps_of_a_users_program_are_complete(self, tmp_path):
        path = tmp_path / "count.bpf.c"
        path.write_text(PROGRAM)
        with accel_magic.trace_program(path) as t:
            for _ in range(100):
                os.getppid()
            kill_reader()

        counts = t.result.maps["counts"]
        assert counts.loc[counts["key"] == os.getpid(), "value"].tolist() == [100]
        assert t.result.events.empty
        assert any("reader process" in note for note in t.result.notes)
        assert_next_trace_works()

    def test_a_profile_has_no_samples_and_a_note(self):
        with accel_magic.flame(rate=499, off_cpu=True) as t:
            time.sleep(0.05)
            kill_reader()

        assert t.result.recording.event_count == 0
        assert t.result.recording.lost.sum() > 0
        assert "reader process" in repr(t.result)
        assert t.result._repr_mimebundle_()

    def test_a_replay_shows_what_it_has_played(self, tmp_path):
        saved = tmp_path / "t.parquet"
        with trace(GETPPID, save=saved) as t:
            for _ in range(50):
                os.getppid()
                time.sleep(0.002)
        player = Replay(saved)
        player.prepare()
        player.attach()
        player.go()
        time.sleep(0.05)
        kill_reader()
        half = player.stop("interrupted")
        assert 0 < half.recorded < 50
        assert half.events["time_ns"].tolist() == t.result.events["time_ns"].tolist()[: half.recorded]

    def test_a_cell_has_its_value_its_variable_and_its_own_error(self, shell):
        done, printed = shell(f"%%ktrace {GETPPID} -o t\nos.getppid()\nkill_reader()\n'the value'")
        assert done.success
        assert "'the value'" in printed
        assert shell.namespace["t"] is done.result is accel_magic.last
        assert done.result.value == "the value"

        done, printed = shell(f"%%ktrace {GETPPID} -o u\nos.getppid()\nkill_reader()\n1 / 0")
        assert isinstance(done.error_in_exec, ZeroDivisionError)
        assert shell.namespace["u"].hits == 1
        assert "reader process" in printed


class TestNowhereToSave:
    """`--save` to a path that cannot be written or runs out of space."""

    @pytest.mark.parametrize("make", ["trace", "flame", "gputrace"])
    def test_an_unwritable_path_is_an_error_before_the_block_runs(self, tmp_path, make, left_behind):
        asked = {"trace": (GETPPID,), "flame": (), "gputrace": ("threadhist",)}[make]
        options = {"device": "cpu"} if make == "gputrace" else {}
        ran = []
        (tmp_path / "taken" / "kind=events").mkdir(parents=True)
        taken = tmp_path / "taken" if make == "trace" else tmp_path
        for place in (taken, tmp_path / "no" / "folder.parquet", "/proc/t.parquet"):
            with pytest.raises(RecordingError), getattr(accel_magic, make)(*asked, save=place, **options):
                ran.append(place)
        assert ran == []
        assert left_behind() == set()
        assert_next_trace_works()

    def test_an_unwritable_path_is_an_error_before_a_cell_runs(self, shell):
        done, _ = shell(f"%%ktrace {GETPPID} --save /no/such/folder/t.parquet\nran = True")
        assert isinstance(done.error_in_exec, RecordingError)
        assert "ran" not in shell.namespace

    def test_after_a_full_disk_the_result_is_kept_and_the_error_explains_how_to_save_it(self, full, tmp_path):
        with pytest.raises(RecordingError) as caught, trace(GETPPID, save=full / "t.parquet") as t:
            os.getppid()

        assert caught.value.code == "save.failed"
        assert "accel_magic.last.to_parquet(" in caught.value.fix
        assert t.result is accel_magic.last
        assert list(full.iterdir()) == []
        t.result.to_parquet(tmp_path / "elsewhere.parquet")
        assert accel_magic.open(tmp_path / "elsewhere.parquet").hits == 1

    def test_after_a_full_disk_a_cell_has_its_value_its_variable_and_its_own_error(self, shell, full):
        line = f"%%ktrace {GETPPID} -o t --save {full}/t.parquet\nos.getppid()\n"
        done, printed = shell(line + "'the value'")
        assert isinstance(done.error_in_exec, RecordingError)
        assert "'the value'" in printed
        assert shell.namespace["t"].hits == 1
        assert shell.namespace["t"].value == "the value"

        del shell.namespace["t"]
        done, printed = shell(line + "raise ValueError('mine')")
        assert isinstance(done.error_in_exec, ValueError)
        assert shell.namespace["t"].recording.outcome == "error"
        assert any("cannot write" in note for note in done.error_in_exec.__notes__)
        assert "cannot write" in printed
