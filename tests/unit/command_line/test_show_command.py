"""`accel-magic show`: every kind of file as text and as a page."""

import re

import pytest

from accel_magic.api.probe_trace import result_of
from accel_magic.command_line import main
from accel_magic.result_bases.profile import ProfileResult
from tests.support.paths import ROOT
from tests.support.profiles import phases

SAMPLES = ROOT / "tests/unit/formats/samples"


@pytest.fixture
def recorded(rich_recording, tmp_path):
    return result_of(rich_recording).to_parquet(tmp_path / "run.parquet")


def test_a_recording_is_shown_as_its_plain_text_summary(recorded, rich_recording, capsys):
    assert main(["show", str(recorded)]) == 0

    shown = capsys.readouterr().out
    assert shown == f"{result_of(rich_recording).summary()}\n"
    assert "malloc" in shown
    assert "2 lost" in shown


def test_a_profile_and_other_tools_output_are_shown_too(tmp_path, capsys):
    profile = ProfileResult(phases([(0, 1, "main;load"), (1, 2, "main;compute")]))
    for path, word in (
        (profile.to_parquet(tmp_path / "f.parquet"), "compute"),
        (profile.to_folded(tmp_path / "f.folded"), "compute"),
        (SAMPLES / "bpftrace.txt", "bpftrace"),
        (ROOT / "notebooks/recordings/made_up_iaprof.txt", "iaprof"),
    ):
        assert main(["show", str(path)]) == 0
        assert word in capsys.readouterr().out


@pytest.fixture
def traced_on_the_gpu(tmp_path):
    """A recording of `%%gputrace`, on the simulated device."""
    pytest.importorskip("llvmlite")
    np = pytest.importorskip("numpy")
    pytest.importorskip("cuda.bindings")
    from accel_magic.api.tracing import gputrace
    from accel_magic.gpu.adapters import nvrtc

    kernel = nvrtc.CpuKernel(nvrtc.compile('extern "C" __global__ void nothing(int *x) { x[threadIdx.x] = 1; }'))
    with gputrace("kernelcount", device="cpu", save=tmp_path / "g.parquet"):
        kernel[1, 32](np.zeros(32, np.int32))
    return tmp_path / "g.parquet"


def test_a_gpu_recording_is_shown_as_text_and_as_a_page(traced_on_the_gpu, tmp_path, capsys):
    assert main(["show", str(traced_on_the_gpu)]) == 0
    assert "kernelcount" in capsys.readouterr().out
    assert main(["show", str(traced_on_the_gpu), "--html", str(tmp_path / "g.html")]) == 0
    page = (tmp_path / "g.html").read_text()
    assert "simulated device" in page
    assert "nothing" in page


def test_a_page_has_the_tables_and_figures_and_loads_nothing(recorded, tmp_path, capsys):
    assert main(["show", str(recorded), "--html", str(tmp_path / "page.html")]) == 0

    assert capsys.readouterr().out == f"{tmp_path / 'page.html'}\n"
    source = (tmp_path / "page.html").read_text(encoding="utf-8")
    seen = re.sub(r"<script>.*?</script>", "", source, flags=re.DOTALL)
    assert source.count('accel-magic-bokehjs"));</script>') == 1
    assert len(re.findall(r'<div class="accel-magic-figure"', source)) == 3
    assert not re.search(r"(src|href)=", seen)
    assert "recorded 2026-11-21T10:00:00+00:00, Test CPU, Linux 6.18.0-test" in seen
    assert "malloc" in seen
    assert "testhost" not in source


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and then nothing of the kind", b"\x00\xff" * 500])
def test_a_file_that_cannot_be_shown_is_an_error_with_status_1(content, tmp_path, capsys):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)

    assert main(["show", str(path)]) == 1

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fix: " in captured.err
    assert "Traceback" not in captured.err


def test_a_page_that_cannot_be_written_is_an_error_with_status_1(recorded, tmp_path, capsys):
    assert main(["show", str(recorded), "--html", str(tmp_path / "nowhere" / "page.html")]) == 1
    assert "cannot write" in capsys.readouterr().err
