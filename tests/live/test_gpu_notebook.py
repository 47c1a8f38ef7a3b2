"""`%%gputrace` in a Jupyter kernel: the live row, interrupts, errors, recordings; on the simulated device."""

import re

import pytest

pytestmark = pytest.mark.live

SETUP = '''import numpy as np, time
from accel_magic.gpu.adapters import nvrtc
scale = nvrtc.CpuKernel(nvrtc.compile("""
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
"""))
long = nvrtc.CpuKernel(nvrtc.compile("""
extern "C" __global__ void spin(volatile float *x, int rounds) {
    for (int i = 0; i < rounds; i++) x[threadIdx.x] += 1;
}
"""))
x = np.ones(256, np.float32)
'''
LAUNCHES = "for i in range({count}):\n    scale[2, 128](x, 2.0, 256)\n    time.sleep({pause})\n"


@pytest.fixture
def gpu(notebook):
    assert notebook(SETUP).status == "ok"
    return notebook


def rows(answer):
    """Texts of the live row, in order."""
    return [
        re.sub("<[^>]+>", " ", content["data"]["state"]["value"])
        for kind, content, _ in answer.messages
        if kind == "comm_msg" and "value" in content["data"].get("state", {})
    ]


def test_a_live_row_counts_launches_under_the_banner_and_ends_with_the_cell(gpu):
    answer = gpu("%%gputrace kernelcount -o t\n" + LAUNCHES.format(count=20, pause=0.1))

    assert answer.status == "ok", answer.reply
    shown = rows(answer)
    assert len(shown) >= 4
    assert all("simulated device" in text for text in shown)
    counts = [int(count) for text in shown for count in re.findall(r"(\d+)\s+launches\s+\d", text)]
    assert counts == sorted(counts)
    assert 0 < counts[-1] <= 20
    assert [kind for kind, _, _ in answer.messages if kind == "comm_close"]
    told = gpu("len(t.launches), [int(n) for n in t.tools['kernelcount'].iloc[0][['launches', 'warps', 'threads']]]")
    assert "(20, [20, 160, 5120])" in told.text


def test_the_row_shows_records_as_they_arrive_even_during_one_launch(gpu):
    answer = gpu("%%gputrace kernelretsnoop kernelcount -o t\nlong[1, 64](x, 80000)")

    assert answer.status == "ok", answer.reply
    shown = rows(answer)
    assert "(1, 64)" in gpu("len(t.launches), len(t.maps['exits'])").text
    # One launch, which is reported when it ends, but the row changed meanwhile.
    assert len([text for text in shown if re.search(r"\b2\s+warps", text)]) >= 3
    # All exits arrive together at its end, and the last rows may already include them.
    exits = [int(match[1]) for text in shown if (match := re.search(r"(\d+)\s+exits", text))]
    assert exits == sorted(exits)
    assert set(exits) <= {0, 64}
    assert exits.count(0) >= 3

    answer = gpu("%%gputrace kernelretsnoop -o t\n" + LAUNCHES.format(count=20, pause=0.1))
    found = [match for text in rows(answer) for match in re.findall(r"([\d.]+)( k)?\s+exits", text)]
    counts = [float(number) * (1000 if thousands else 1) for number, thousands in found]
    assert counts == sorted(counts)
    assert len({count for count in counts if 0 < count < 20 * 256}) >= 3
    assert "5120" in gpu("len(t.tools['kernelretsnoop'])").text


def test_an_option_shows_what_each_launch_added(gpu):
    answer = gpu("%%gputrace kernelcount --by-launch -o t\nfor i in range(3):\n    scale[2, 32 << i](x, 2.0, 256)")

    assert answer.status == "ok", answer.reply
    # The warps of one launch are counted by multiprocessor.
    told = gpu("t.history['kernels'].groupby('launch')[['warps', 'idle']].sum().to_numpy().tolist()")
    assert "[[2, 0], [4, 0], [8, 0]]" in told.text
    refused = gpu("%%gputrace kernelcount --by-launch --every 1\nran = True")
    assert refused.reply["ename"] == "ProbeError"
    assert "NameError" in gpu("ran").reply.get("ename", "")


def test_an_interrupt_keeps_finished_launches_and_the_next_cell_traces(gpu):
    answer = gpu("%%gputrace kernelcount -o part\n" + LAUNCHES.format(count=400, pause=0.05), interrupt_after=2.5)

    assert (answer.status, answer.reply["ename"]) == ("error", "KeyboardInterrupt")
    told = gpu(
        "counted = int(part.tools['kernelcount']['launches'].sum())\n"
        "part.recording.outcome, len(part.launches) == counted, 0 < counted < 400"
    )
    assert "('interrupted', True, True)" in told.text
    assert gpu("%%gputrace kernelcount -o whole\nscale[2, 128](x, 2.0, 256)").status == "ok"
    assert "1" in gpu("len(whole.launches)").text


def test_the_cells_error_is_raised_and_an_invalid_line_attaches_nothing(gpu):
    failed = gpu("%%gputrace kernelcount -o t\nscale[2, 128](x, 2.0, 256)\n1 / 0")
    assert (failed.status, failed.reply["ename"]) == ("error", "ZeroDivisionError")
    assert "(1, 'error')" in gpu("len(t.launches), t.recording.outcome").text

    wrong = gpu("%%gputrace kernelcounts\nran = True")
    assert wrong.reply["ename"] == "ProbeError"
    assert "did you mean kernelcount" in "\n".join(wrong.reply["traceback"])
    assert "NameError" in gpu("ran").reply.get("ename", "")


def test_a_saved_trace_plays_back_under_both_banners_without_running_the_cell(gpu, tmp_path):
    path = tmp_path / "t.parquet"
    saved = gpu(f"%%gputrace kernelcount --save {path}\n" + LAUNCHES.format(count=10, pause=0.1))
    assert saved.status == "ok", saved.reply

    answer = gpu(f"%%gputrace --replay {path} -o again\nran = True")

    assert answer.status == "ok", answer.reply
    assert all("REPLAY: recorded on simulated device" in text for text in rows(answer))
    (result,) = answer.of("execute_result")
    assert "REPLAY: recorded on simulated device" in result["data"]["text/html"]
    assert "NameError" in gpu("ran").reply.get("ename", "")
    assert "5120" not in gpu("again.tools['kernelcount']['threads'].tolist()").text
    assert "[2560]" in gpu("again.tools['kernelcount']['threads'].tolist()").text


def test_defaults_come_from_config_and_completion_includes_the_tools(gpu):
    assert gpu("%config GpuTrace.threads = 100").status == "ok"
    gpu("%%gputrace threadhist -o t\nscale[2, 128](x, 2.0, 256)")
    assert "(100, 312)" in gpu("len(t.tools['threadhist']), t.lost").text

    gpu.client.complete("%%gputrace thr", len("%%gputrace thr"))
    reply = gpu.client.get_shell_msg(timeout=20)
    while reply["msg_type"] != "complete_reply":
        reply = gpu.client.get_shell_msg(timeout=20)
    assert "threadhist" in reply["content"]["matches"]
