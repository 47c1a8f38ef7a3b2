"""Tab completion on `%%ktrace` and `%%gputrace` lines."""

from types import SimpleNamespace

import pytest

from accel_magic.magics import extension


@pytest.fixture
def complete(monkeypatch):
    """Complete a line as IPython does: `symbol` is the text after the last delimiter, which may be ':'."""
    monkeypatch.setattr(
        "accel_magic.probes.completion.complete",
        lambda word: [name for name in ("t:sched:sched_switch", "t:sched:sched_wakeup") if name.startswith(word)],
    )

    dask = type("Client", (), {"__module__": "distributed.client", "asynchronous": False})()
    shell = SimpleNamespace(user_ns={"cluster": dask, "client": dask, "_": dask, "name": "client"})

    def complete_(line):
        word = line.split(" ")[-1]
        symbol = word if word.startswith("-") else word.replace("=", ":").rpartition(":")[2]
        answer = extension.complete_gpu if line.startswith("%%gputrace") else extension.complete
        return answer(shell, SimpleNamespace(text_until_cursor=line, symbol=symbol, line=line))

    return complete_


def test_probes_are_completed_after_the_last_delimiter(complete):
    assert complete("%%ktrace t:sched:sched_w") == ["sched_wakeup"]
    assert complete("%%ktrace t:sched:") == ["sched_switch", "sched_wakeup"]
    assert complete("%%ktrace t:sch") == ["sched:sched_switch", "sched:sched_wakeup"]
    assert complete("%%ktrace x:y t:sched:sched_s") == ["sched_switch"]


def test_options_are_completed(complete):
    assert complete("%%ktrace t:sched:sched_switch --max") == ["--max-events"]
    assert complete("%%ktrace --no-l") == ["--no-live"]
    assert set(complete("%%ktrace --")) >= {"--mode", "--scope", "--filter", "--replay", "--dry-run", "--help"}


def test_clients_of_clusters_are_completed_after_on(complete):
    assert complete("%%ktrace --on ") == ["client", "cluster"]
    assert complete("%%ktrace t:sched:sched_switch --on cli") == ["client"]
    assert complete("%%ktrace --on client t:sched:sched_s") == ["sched_switch"]


def test_probes_of_cpu_programs_are_completed_after_their_functions(complete):
    assert complete("%%gputrace a.bpf.c on_wake=t:sched:sched_w") == ["sched_wakeup"]
    assert complete("%%gputrace a.bpf.c on_wake=") == ["t:sched:sched_switch", "t:sched:sched_wakeup"]
    assert complete("%%gputrace kernelc") == ["kernelcount"]
    assert complete("%%gputrace a.bpf.c --by-") == ["--by-launch"]


def test_an_unknown_prefix_has_no_completions(complete):
    assert complete("%%ktrace u:nothing") == []
