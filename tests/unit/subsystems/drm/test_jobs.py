"""Jobs of the DRM scheduler, on kernels that identify them by fence numbers and on those that use addresses."""

import pandas as pd
import pytest

from accel_magic.subsystems.drm.statistics import stretches


def values(column):
    return [None if value is pd.NA or value != value else value for value in column.tolist()]  # noqa: PLR0124 - NaN


def test_a_job_has_the_times_of_its_steps(story):
    story.job(40, 1, (100, 130, 230), depth=3, on_ring=2, tid=21)

    job = story.trace().gpu_jobs.iloc[0]

    assert (job.queued_ns, job.started_ns, job.done_ns) == (100, 130, 230)
    assert (job.queue_ns, job.run_ns, job.latency_ns) == (30, 100, 130)
    assert (job.depth, job.ring_depth, job.ring, job.status) == (3, 2, "gfx", "done")
    assert (job.pid, job.tid, job.comm) == (20, 21, "app")
    assert (job.context, job.seqno) == (40, 1)


def test_jobs_that_overlap_are_told_apart(story):
    for number in range(1, 6):
        story.job(40, number, (100 * number, 100 * number + 250, 100 * number + 400), ring=f"ring{number % 2}")

    jobs = story.trace().gpu_jobs

    assert values(jobs["seqno"]) == [1, 2, 3, 4, 5]
    assert set(values(jobs["queue_ns"])) == {250}
    assert set(values(jobs["run_ns"])) == {150}
    assert values(jobs["ring"]) == ["ring1", "ring0", "ring1", "ring0", "ring1"]


def test_an_address_that_is_reused_is_another_job(old_story):
    old_story.job(40, 1, (100, 110, 120), address=0xFFFF0000)
    old_story.job(40, 2, (200, 220, 250), address=0xFFFF0000)
    old_story.job(40, 3, (300, 350, None), address=0xFFFF0000)

    jobs = old_story.trace().gpu_jobs

    assert values(jobs["queued_ns"]) == [100, 200, 300]
    assert values(jobs["run_ns"]) == [10, 30, None]
    assert values(jobs["status"]) == ["done", "done", "unfinished"]


def test_a_reused_address_whose_first_end_was_lost_does_not_join_two_jobs(old_story):
    old_story.job(40, 1, (100, 110, None), address=0xFFFF0000)
    old_story.job(40, 2, (200, None, 250), address=0xFFFF0000)

    jobs = old_story.trace().gpu_jobs

    assert values(jobs["done_ns"]) == [None, 250]


def test_a_fence_of_another_ring_is_not_taken_for_the_jobs_own(old_story):
    old_story.job(40, 1, (100, 110, 120))
    old_story.events = [row for row in old_story.events if row["function"] != "dma_fence_signaled"]
    old_story.signal(121, 77, 5, ring="other")

    assert values(old_story.trace().gpu_jobs["context"]) == [None]


def test_jobs_begun_before_the_trace_have_no_submission(story):
    story.job(40, 1, (None, 50, 60))
    story.job(40, 2, (None, None, 80))

    jobs = story.trace().gpu_jobs

    assert values(jobs["queued_ns"]) == [None, None]
    assert values(jobs["run_ns"]) == [10, None]
    assert values(jobs["pid"]) == [None, None]
    assert values(jobs["ring"]) == ["gfx", None]


def test_the_client_is_its_number_or_the_address_of_its_queue(new_story, old_story):
    for story, client in ((new_story, 7), (old_story, 0xFFFF_8881_0000_0007)):
        story.job(40, 1, (100, 110, 120), client=7)
        assert values(story.trace().gpu_jobs["client"]) == [client]


def test_the_submitting_call_and_ioctl_are_found(story):
    story.hit("clEnqueueNDRangeKernel", 90, tid=21, lasts=100)
    story.hit("drm_ioctl", 95, tid=21, lasts=50, ioctl=0xC0486445)
    story.job(40, 1, (100, 130, 230), tid=21)
    story.hit("drm_ioctl", 300, tid=31, lasts=50, ioctl=0xC0486445)
    story.hit("lab_submit_ioctl", 301, tid=31, lasts=40)
    story.job(41, 1, (310, 330, 430), tid=31)
    story.job(41, 2, (500, 530, 630), tid=21)

    jobs = story.trace().gpu_jobs

    assert values(jobs["call"]) == ["clEnqueueNDRangeKernel", None, None]
    assert values(jobs["ioctl"]) == ["driver ioctl 0x05", "lab_submit_ioctl", None]


def test_what_held_up_a_job_is_found(story):
    story.job(40, 1, (100, 110, 500), ring="copy")
    story.job(41, 1, (120, 510, 600), ring="gfx", on=[(40, 1)], held_at=130)
    story.job(42, 9, (140, 150, 160), ring="gfx", on=[(39, 3)])
    result = story.trace()

    jobs, held = result.gpu_jobs, result.drm.dependencies

    assert values(jobs["blocked"]) == [0, 1, 0]
    blocked = held[held["blocked"]]
    assert (values(blocked["job"]), values(blocked["on"]), values(blocked["context"])) == ([1], [0], [40])
    if not story.old:
        assert values(jobs["dependencies"]) == [0, 1, 1]
        assert values(held["on"]) == [0, 0, None]


def test_a_timeout_belongs_to_the_job_that_ran_longest(story):
    story.job(40, 1, (100, 110, 200))
    story.job(40, 2, (120, 210, 900))
    story.job(41, 1, (130, 300, None), ring="copy")
    story.timeout(800, lasts=60)
    result = story.trace()

    assert values(result.gpu_jobs["status"]) == ["done", "timed out", "unfinished"]
    assert values(result.gpu_jobs["timeouts"]) == [0, 1, 0]
    assert result.drm.timeouts[["time_ns", "duration_ns", "job"]].values.tolist() == [[800, 60.0, 1]]


def test_a_timeout_without_a_running_job_has_no_job(story):
    story.job(40, 1, (100, 110, 200))
    story.timeout(800)

    assert values(story.trace().drm.timeouts["job"]) == [None]


def test_waits_have_the_call_that_waited_and_the_job(story):
    story.hit("clFinish", 240, tid=21, lasts=400)
    story.hit("drm_ioctl", 250, tid=21, lasts=300, ioctl=0xC01C64C3)
    story.job(40, 1, (100, 130, 500), tid=21)
    story.wait(260, 520, 40, 1, tid=21)
    story.wait(600, 610, 99, 2, tid=31)
    story.wait(700, None, 40, 1, tid=31)

    waits = story.trace().drm.waits

    assert values(waits["wait_ns"]) == [260, 10, None]
    assert values(waits["job"]) == [0, None, 0]
    assert values(waits["call"]) == ["clFinish", None, None]
    assert values(waits["ioctl"]) == ["DRM_IOCTL_SYNCOBJ_WAIT", None, None]
    assert values(waits["tid"]) == [21, 31, 31]


def test_the_counts_of_steps_are_exact_when_events_are_lost(story):
    for number in range(1, 11):
        story.job(40, number, (100 * number, 100 * number + 10, 100 * number + 50))
    done = story.points()[2].function

    steps = story.trace(without=(done,)).drm.steps

    assert steps.loc["queued"].tolist() == [10, 10, 0]
    assert steps.loc["done"].tolist() == [10, 0, 10]
    assert ("dependency" in steps.index) == (not story.old)


def test_an_empty_trace_has_empty_tables(story):
    drm = story.trace().drm

    for table in (drm.jobs, drm.dependencies, drm.timeouts, drm.waits, drm.rings, drm.clients):
        assert len(table) == 0
    assert drm.steps["hits"].sum() == 0


def test_rings_and_clients_sum_up_their_jobs(story):
    story.job(40, 1, (0, 100, 300), ring="gfx", client=1, depth=0)
    story.job(40, 2, (50, 300, 500), ring="gfx", client=1, depth=1)
    story.job(41, 1, (60, 200, 400), ring="gfx", client=2, depth=4)
    story.job(42, 1, (700, 710, 760), ring="copy", client=2)
    drm = story.trace(duration_ns=1000).drm

    gfx = drm.rings.xs("gfx", level="ring").iloc[0]
    assert (gfx.jobs, gfx.done, gfx.timed_out, gfx.depth_max, gfx.run_ns) == (3, 3, 0, 4, 600)
    assert gfx.busy_share == pytest.approx(0.4)
    assert (gfx.queue_p50_ns, gfx.run_p50_ns) == (140, 200)
    assert drm.rings.index.get_level_values("ring").tolist() == ["gfx", "copy"]
    assert drm.clients["jobs"].tolist() == [2, 2]
    assert drm.clients["comm"].tolist() == ["app", "app"]
    assert drm.clients["run_ns"].tolist() == [400, 250]


def test_stretches_that_touch_are_one():
    jobs = pd.DataFrame({"begin": [10, 20, 50, 15], "end": [20, 30, 60, None]}, dtype="Int64")

    assert [times.tolist() for times in stretches(jobs, "begin", "end")] == [[10, 50], [30, 60]]
    assert [times.tolist() for times in stretches(jobs, "begin", "end", 2)] == [[20], [20]]
