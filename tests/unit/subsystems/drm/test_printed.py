"""Output of `perf script` with the scheduler's events, as its tracepoints print them."""

import pytest

import accel_magic

OLD = """\
app   100/100   [001]   100.000100: gpu_scheduler:drm_sched_job: entity=00000000abcd, id=5, fence=00000000ffff1234, ring=gfx, job count:0, hw job count:1
kworker   90/90   [001]   100.000200: gpu_scheduler:drm_run_job: entity=00000000abcd, id=5, fence=00000000ffff1234, ring=gfx, job count:0, hw job count:1
swapper     0/0     [001]   100.000450: gpu_scheduler:drm_sched_process_job: fence=00000000ffff1234 signaled
"""  # noqa: E501
NEW = """\
app   100/100   [001]   100.000100: gpu_scheduler:drm_sched_job_queue: dev=0000:03:00.0, fence=12:5, ring=gfx, job count:0, hw job count:1, client_id:4
app   100/100   [001]   100.000110: gpu_scheduler:drm_sched_job_queue: dev=0000:03:00.0, fence=12:6, ring=gfx, job count:0, hw job count:1, client_id:4
kworker   90/90   [001]   100.000200: gpu_scheduler:drm_sched_job_run: dev=0000:03:00.0, fence=12:5, ring=gfx, job count:0, hw job count:1, client_id:4
swapper     0/0     [001]   100.000450: gpu_scheduler:drm_sched_job_done: fence=12:5 signaled
"""  # noqa: E501


@pytest.fixture
def opened(tmp_path):
    def opened(text):
        (tmp_path / "perf.txt").write_text(text)
        return accel_magic.open(tmp_path / "perf.txt")

    return opened


def test_jobs_are_joined_by_the_address_of_their_fence(opened):
    result = opened(OLD)
    job = result.gpu_jobs.iloc[0]

    assert (job.ring, job.client, job.queue_ns, job.run_ns) == ("gfx", 0xABCD, 100_000, 250_000)
    assert "1 job on 1 ring" in result.summary()


def test_jobs_are_joined_by_their_fences_context_and_number(opened):
    jobs = opened(NEW).gpu_jobs

    assert jobs["seqno"].tolist() == [5, 6]
    assert jobs["context"].tolist() == [12, 12]
    assert jobs["status"].tolist() == ["done", "unfinished"]
    assert jobs["run_ns"].dropna().tolist() == [250_000]


def test_a_fence_that_is_not_a_number_does_not_prevent_opening(opened):
    result = opened(OLD.replace("00000000ffff1234", "(nil)"))

    assert "drm_run_job" in result.summary()


def test_steps_of_another_device_or_ring_belong_to_another_job_though_the_fence_looks_the_same(opened):
    # Addresses are reused: the second line is a job whose submission is not in the file.
    lines = OLD.splitlines()
    old = opened("\n".join([lines[0], lines[1].replace("ring=gfx", "ring=sdma0"), lines[2], ""])).gpu_jobs
    second = NEW.replace("03:00.0", "04:00.0").replace("ring=gfx", "ring=compute").replace("100.000", "100.001")
    new = opened(NEW + second).gpu_jobs
    # At the same time; the end is of the device that ran last.
    both = [line for pair in zip(NEW.splitlines()[:3], second.splitlines()[:3], strict=True) for line in pair]
    mixed = opened("\n".join([*both, *NEW.splitlines()[3:], ""])).gpu_jobs

    assert old[["ring", "status"]].to_numpy().tolist() == [["gfx", "unfinished"], ["sdma0", "done"]]
    assert old["queue_ns"].isna().all()
    assert new["device"].tolist() == ["0000:03:00.0"] * 2 + ["0000:04:00.0"] * 2
    assert new["run_ns"].dropna().tolist() == [250_000, 250_000]
    assert len(mixed) == 4
    assert sorted(mixed["queue_ns"].dropna().tolist()) == [100_000, 100_000]
