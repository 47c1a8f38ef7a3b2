"""Each rule is shown for a trace that deserves it, and silent for one that does not."""

import pytest

from accel_magic.subsystems.drm.rules import RULES

pytestmark = pytest.mark.component


def busy(story, *, jobs=10, queue=20, run=100, rings=("gfx",)):
    """Jobs one after another on each ring; each waits `queue` ns and runs `run` ns."""
    for at, ring in enumerate(rings):
        for number in range(jobs):
            start = 1000 + number * run
            story.job(40 + at, number + 1, (start - queue, start, start + run), ring=ring)


def ids(story, **keywords):
    return story.trace(**keywords).diagnose().ids


def finding(story, name, **keywords):
    return next(one for one in story.trace(**keywords).diagnose() if one.id == name)


def test_a_good_trace_has_no_findings_and_all_rules_were_checked(story):
    busy(story, rings=("gfx", "copy"))
    story.hit("clFinish", 1500, tid=21, lasts=400)
    story.wait(1510, 1800, 40, 5, tid=21)
    diagnosis = story.trace().diagnose()

    assert diagnosis.ids == ()
    assert diagnosis.checked == tuple(rule.id for rule in RULES)
    assert dict(diagnosis.unchecked) == {}


def test_no_jobs_at_all_is_reported(story):
    story.wait(1510, 1800, 40, 5, tid=21)

    assert ids(story) == ("nothing-traced",)


def test_lost_events_are_reported_with_their_number(story):
    busy(story, jobs=10)
    lost = story.points()[2].function

    found = finding(story, "events-lost", without=(lost,))

    assert (found.evidence["lost"], found.evidence["hits"]) == (10, 30)


def test_timeouts_are_a_problem_with_their_places(story):
    busy(story)
    story.job(41, 1, (5000, 5010, None))
    story.timeout(9000, lasts=70)

    found = finding(story, "jobs-timed-out")

    assert (found.severity, found.evidence["timeouts"], found.evidence["jobs"]) == ("problem", 1, 1)
    assert [(place.start_ns, place.end_ns) for place in found.where] == [(9000, 9070)]


def test_timeouts_are_counted_even_if_their_events_are_lost(story):
    busy(story)
    story.timeout(9000)

    assert finding(story, "jobs-timed-out", without=("drm_sched_job_timedout",)).evidence["timeouts"] == 1


@pytest.mark.parametrize(("queue", "shown"), [(99, False), (150, True)])
def test_jobs_that_wait_longer_than_they_run_are_reported(story, queue, shown):
    busy(story, queue=queue)

    assert ("queue-wait" in ids(story)) == shown


def test_the_evidence_of_queue_waits_is_their_ratio(story):
    busy(story, queue=250)

    assert finding(story, "queue-wait").evidence["ratio"] == pytest.approx(2.5)


def test_few_jobs_say_nothing_about_queue_waits(story):
    busy(story, jobs=4, queue=500)

    assert "queue-wait" not in ids(story)


def crowd(story, *, other):
    """Ten jobs queued at once on one ring; the jobs `other` (queued, started, done) on another one."""
    for number in range(10):
        story.job(40, number + 1, (1000, 1000 + 100 * number, 1100 + 100 * number), ring="gfx", depth=number)
    for number, times in enumerate(other):
        story.job(41, number + 1, times, ring="copy")


def test_a_full_ring_beside_idle_ones_is_reported(story):
    crowd(story, other=[(900, 910, 1000)])

    found = finding(story, "ring-full")

    assert "ring gfx" in found.title
    # Three or more jobs wait until the eighth starts, at 1700, of 900 to 2000.
    assert found.evidence["full_ns"] == 700
    assert found.evidence["full_share"] == pytest.approx(700 / 1100)


def test_a_full_ring_beside_busy_ones_is_not_reported(story):
    crowd(story, other=[(1000, 1010, 2000)])

    assert "ring-full" not in ids(story)


def test_a_full_ring_without_others_is_not_reported(story):
    crowd(story, other=[])

    assert "ring-full" not in ids(story)


def test_jobs_that_a_dependency_holds_back_do_not_make_a_ring_full(story):
    story.job(39, 1, (900, 910, 1000), ring="copy")
    for number in range(10):
        times = (1000, 1000 + 100 * number, 1100 + 100 * number)
        story.job(40, number + 1, times, ring="gfx", on=[(7, 7)], held_at=1000)

    assert "ring-full" not in ids(story)


def ping_pong(story, *, overlap):
    """Jobs alternate between two rings, each blocked by the one before, and begin `overlap` ns before its end."""
    for number in range(10):
        start = 1000 + number * (100 - overlap)
        before = [(40 + (number + 1) % 2, number)]
        held = {"on": before, "held_at": start - 15} if number else {}
        story.job(40 + number % 2, number + 1, (start - 20, start, start + 100), ring=f"ring{number % 2}", **held)


def test_dependencies_that_make_rings_take_turns_are_reported(story):
    ping_pong(story, overlap=0)

    found = finding(story, "dependencies-serialise")

    assert found.evidence["blocked"] == 9
    assert found.evidence["blocked_share"] == pytest.approx(0.9)
    assert found.evidence["overlap_share"] == 0


def test_dependencies_that_let_rings_overlap_are_not_reported(story):
    ping_pong(story, overlap=40)

    assert "dependencies-serialise" not in ids(story)


def test_dependencies_within_a_ring_cost_nothing(story):
    for number in range(10):
        held = {"on": [(40, number)], "held_at": 985 + number * 100} if number else {}
        story.job(40, number + 1, (980 + number * 100, 1000 + number * 100, 1100 + number * 100), **held)

    assert "dependencies-serialise" not in ids(story)


def test_long_fence_waits_are_reported_by_the_call_that_waited(story):
    busy(story)
    story.hit("clFinish", 900, tid=21, lasts=600_000)
    story.hit("drm_ioctl", 950, tid=21, lasts=599_000, ioctl=0xC3)
    story.wait(1000, 400_000, 40, 1, tid=21)
    story.wait(450_000, 500_000, 40, 2, tid=21)
    story.hit("drm_ioctl", 900, tid=31, lasts=600_000, ioctl=0xC3)
    story.wait(1000, 300_000, 40, 1, tid=31)

    found = finding(story, "fence-waits")

    assert found.title.startswith("clFinish waited for fences for 44.9 %")
    assert (found.evidence["waits"], found.evidence["wait_ns"]) == (2, 449_000)


def test_without_a_library_call_the_ioctl_is_named(story):
    busy(story)
    story.hit("drm_ioctl", 900, tid=31, lasts=600_000, ioctl=0xC01C64C3)
    story.wait(1000, 400_000, 40, 1, tid=31)

    assert finding(story, "fence-waits").title.startswith("DRM_IOCTL_SYNCOBJ_WAIT waited")


def test_rules_whose_events_were_not_traced_are_listed(make_recording):
    from accel_magic.results.trace_result import TraceResult

    diagnosis = TraceResult(make_recording(["tracepoint:gpu_scheduler:drm_sched_job_queue"], [(10, 0)])).diagnose()

    assert diagnosis.unchecked["jobs-timed-out"] == "drm_sched_job_timedout"
    assert {"dependencies-serialise", "fence-waits"} <= diagnosis.unchecked.keys()


def test_the_result_of_a_cell_sums_up_jobs_and_findings(story):
    busy(story, queue=250, rings=("gfx", "copy"))

    text = story.trace().summary()

    assert "20 jobs on 2 rings, in the queue p50 250 ns, p99 250 ns, on the device p50 100 ns, p99 100 ns" in text
    assert "diagnose(): 1 warning, 7 rules checked; warning: jobs waited 2.5 times as long" in text


def test_a_trace_of_fences_alone_is_diagnosed_as_one(make_recording, make_point):
    from accel_magic.results.trace_result import TraceResult

    point = make_point(0, "tracepoint:dma_fence:dma_fence_wait_start", probe="drm:fences")
    diagnosis = TraceResult(make_recording([point])).diagnose()

    assert diagnosis.checked == ("events-lost", "fence-waits")
    assert diagnosis.ids == ()
