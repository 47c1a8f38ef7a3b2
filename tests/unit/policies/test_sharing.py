"""Tenants share an engine as the runlist says: compared with a second implementation, in steps of a microsecond."""

import itertools

import numpy as np
import pytest

import accel_magic
from accel_magic.errors import ProbeError, ProgramError
from accel_magic.policies import policy, runlist, tenants
from accel_magic.policies.model_engine import DEFAULT_INTERLEAVE, DEFAULT_TIMESLICE_US, ModelMemory, ScheduledTask
from accel_magic.policies.tenants import Tenant
from tests.support.errors import raises

pytestmark = pytest.mark.component


class ByMicroseconds:
    """The same in steps of 1 us; all times are whole microseconds.

    `preempts` has the tenants that a launch of a tenant preempts, before (False) or after (True) its job is queued.
    """

    def __init__(self, who, tasks, arrivals, preempts=None):
        self.who, self.tasks, self.order, self.preempts = who, tasks, expected_order(tasks), preempts
        self.coming = [(int(time), number, False) for number, column in enumerate(arrivals) for time in column]
        self.made, self.queues, self.preempted = [], [[] for _ in who], [0] * len(who)
        self.at, self.left, self.now, self.current = 0, 0, 0, None

    def loses(self):
        """Whether the running task loses the engine to something that comes now."""
        running = self.current if self.left and self.queues[self.current] else None
        while self.coming and min(self.coming)[0] <= self.now:
            time, number, begun = launch = min(self.coming)
            self.coming.remove(launch)
            if self.preempts is None or begun:
                self.queues[number].append([number, time, None, None, self.who[number].work_us])
                self.made.append(self.queues[number][-1])
            else:
                self.coming.append((time, number, True))
            if self.preempts is not None and running in self.preempts[number, begun]:
                self.preempted[running] += 1
                self.left = 0
                return True
        return False

    def chosen(self):
        """Whether somebody has the engine; if nobody has, the next on the runlist with work gets it."""
        if self.left and self.queues[self.current]:
            return True
        self.left = 0
        for step in range(len(self.order)):
            place = (self.at + step) % len(self.order)
            one = self.order[place]
            if self.queues[one]:
                self.at, self.left, self.current = (place + 1) % len(self.order), self.tasks[one].timeslice_us, one
                return True
        return False

    def work(self):
        job = self.queues[self.current][0]
        job[4] -= 1
        self.left -= 1
        self.now += 1
        if not job[4]:
            job[3] = self.now
            self.queues[self.current].pop(0)
            if not self.who[self.current].every_us:
                self.coming.append((self.now, self.current, False))

    def jobs(self, duration):
        """(tenant, arrival, start, end) of each job, sorted."""
        lost = False
        while self.now < duration:
            lost = lost or self.loses()  # who lost the engine lost it before what else comes now
            if not self.chosen():
                self.now, lost = self.now + (not lost), False
                continue
            job = self.queues[self.current][0]
            job[2] = self.now if job[2] is None else job[2]
            if not (lost and self.loses()):
                self.work()
                lost = False
        return sorted(tuple(job[:4]) for job in self.made)


def expected_order(tasks):
    members = [number for number, task in enumerate(tasks) if task.admitted]
    levels = sorted({tasks[one].interleave for one in members})
    order = []
    for level in reversed(levels):
        order = list(itertools.chain.from_iterable([*order, one] for one in members if tasks[one].interleave == level))
    return order


class Whole:
    """Random numbers for whole microseconds."""

    def __init__(self, random):
        self._random = random

    def uniform(self, low, high):
        return float(self._random.integers(low, max(high, low + 1)))

    def exponential(self, mean, count):
        return np.ceil(self._random.exponential(mean, count))


@pytest.mark.parametrize("seed", range(12))
def test_jobs_start_and_end_when_they_do_in_another_implementation(seed):
    random = np.random.default_rng(seed)
    who = [
        Tenant(f"t{n}", int(random.integers(1, 80)), int(random.choice([0, 40, 300])), bool(random.integers(2)))
        for n in range(int(random.integers(1, 6)))
    ]
    tasks = [
        ScheduledTask(int(random.integers(1, 60)), int(random.integers(0, 3)), bool(random.random() < 0.9)) for _ in who
    ]
    found = runlist.run(who, tasks, 3000.0, Whole(np.random.default_rng(seed)))
    again = Whole(np.random.default_rng(seed))
    expected = ByMicroseconds(who, tasks, [one.arrivals(3000.0, again) for one in who]).jobs(3000)
    ours = sorted(tuple(None if np.isnan(value) else int(value) for value in job) for job in found.jobs.tolist())
    # A job that comes at the very end is told of by one of them only.
    assert [job for job in ours if job[1] < 2999] == [job for job in expected if job[1] < 2999]
    assert found.busy_us.sum() <= 3000


@pytest.mark.parametrize("seed", range(20))
def test_tasks_are_preempted_when_they_are_in_another_implementation(seed):
    random = np.random.default_rng(seed)
    who = [Tenant(f"t{n}", int(random.integers(1, 80)), int(random.choice([40, 300, 900]))) for n in range(4)]
    tasks = [ScheduledTask(int(random.integers(1, 200)), int(random.integers(0, 3)), admitted=True) for _ in who]
    preempts = {
        (number, after): set(np.flatnonzero(random.random(4) < 0.4).tolist())
        for number in range(4)
        for after in (False, True)
    }
    arrivals = Whole(np.random.default_rng(seed))
    found = runlist.run(who, tasks, 3000.0, arrivals, launch=lambda number, after: preempts[number, after])
    again = Whole(np.random.default_rng(seed))
    other = ByMicroseconds(who, tasks, [one.arrivals(3000.0, again) for one in who], preempts)
    expected = other.jobs(3000)
    ours = sorted(tuple(None if np.isnan(value) else int(value) for value in job) for job in found.jobs.tolist())
    assert [job for job in ours if job[1] < 2999] == [job for job in expected if job[1] < 2999]
    assert found.preempted.tolist() == other.preempted
    assert sum(other.preempted) > 0


@pytest.mark.parametrize(
    ("levels", "expected"),
    [([1, 1, 1], [0, 1, 2]), ([2, 1, 1], [0, 1, 0, 2]), ([2, 1, 0, 2], [0, 3, 1, 2]), ([0, 2], [1, 0]), ([5], [0])],
)
def test_tasks_of_a_level_come_before_each_one_of_the_next(levels, expected):
    assert runlist.runlist(levels, range(len(levels))) == expected


def test_a_runlist_that_would_be_too_long_is_a_typed_error():
    with raises("policy.bad-tenant", ProbeError):
        runlist.runlist([*[0] * 60, *[1] * 60, *[2] * 60], range(180))


def test_without_a_policy_tasks_have_the_drivers_default_and_the_policy_sees_names_and_ids():
    model = ModelMemory(None, chunks=1, blocks=1, tenants=2)
    assert model.task(1, "any") == ScheduledTask(DEFAULT_TIMESLICE_US, DEFAULT_INTERLEAVE, admitted=True)
    loaded = policy.load("timeslices", settings={"critical.a-name-of-15-by": 1, "critical.b": 1, "critical_us": 77})
    model = ModelMemory(loaded, chunks=1, blocks=1, tenants=3)
    assert model.task(0, "a-name-of-15-bytes") == ScheduledTask(77, 2, admitted=True)
    assert model.task(2, "b") == ScheduledTask(77, 2, admitted=True)
    assert model.task(1, "c") == ScheduledTask(200, 1, admitted=True)


CONTROL = """
#include "gpu_policy.h"
volatile const u64 first = 0, second = 0;
volatile const u32 level = 1, other = 1;
u64 asked, handles;
SEC("struct_ops/on_task_init")
int BPF_PROG(on_init, struct nv_gpu_task_init_ctx *task)
{
	bpf_nv_gpu_set_interleave(task, level);
	bpf_nv_gpu_set_interleave(task, other);
	return 0;
}
SEC("struct_ops/on_timeslice_control")
int BPF_PROG(on_control, struct nv_gpu_timeslice_control_ctx *task)
{
	asked += task->requested_timeslice_us;
	handles += task->hclient != 0 && task->htsg != 0;
	if (first)
		bpf_nv_gpu_override_timeslice(task, first);
	if (second)
		bpf_nv_gpu_override_timeslice(task, second);
	return 0;
}
SEC(".struct_ops.link")
struct nv_gpu_sched_ops ops = { .on_task_init = (void *)on_init, .on_timeslice_control = (void *)on_control };
"""


@pytest.mark.parametrize(
    ("asks", "settings", "expected"),
    [
        (0, {}, (2000, 1, 0)),
        (2048, {}, (2048, 1, 0)),
        (2048, {"first": 300}, (300, 1, 0)),
        (2048, {"first": 300, "second": 300}, (300, 1, 0)),
        (2048, {"first": 300, "second": 301}, (2000, 1, 1)),  # a conflict: what the process asks for fails
        (2048, {"first": 1_000_001}, (2000, 1, 1)),
        (3_000_000, {"first": 300}, (3_000_000, 1, 0)),  # longer than what policies decide about
        (0, {"level": 2, "other": 2}, (2000, 2, 0)),
        (0, {"level": 2, "other": 0}, (2000, 1, 1)),
        (0, {"level": 3, "other": 3}, (2000, 1, 1)),
    ],
)
def test_a_policy_answers_what_a_process_asks_for(asks, settings, expected):
    model = ModelMemory(policy.load(CONTROL, settings=settings), chunks=1, blocks=1, tenants=2)
    task = model.task(1, "t", asks)
    assert (task.timeslice_us, task.interleave, task.refused) == expected
    if not settings and asks:
        contents = {content.spec.name: np.frombuffer(content.raw.tobytes()[:16], np.uint64) for content in model.maps()}
        assert sorted(contents[".bss"].tolist()) == [1, 2048]


PREEMPTS = """
#include "gpu_policy.h"
SEC("{section}")
int probed({argument}) {{ return bpf_nv_gpu_preempt_tsg(1, 1); }}
SEC("struct_ops/on_bind")
int BPF_PROG(on_bind, struct nv_gpu_bind_ctx *bind) {{ return 0; }}
SEC(".struct_ops.link") struct nv_gpu_sched_ops ops = {{ {hook} }};
"""


@pytest.mark.parametrize(
    ("section", "argument", "hook"),
    [
        ("uprobe/libcuda.so.1:cuLaunchKernel", "void *registers", ".on_bind = (void *)on_bind"),
        ("struct_ops/on_task_init", "unsigned long long *arguments", ".on_task_init = (void *)probed"),
        ("uprobe.s/libcuda.so.1:cuLaunchKernel_ptsz", "void *registers", ".on_bind = (void *)on_bind"),
        ("uprobe.s", "void *registers", ".on_bind = (void *)on_bind"),
    ],
)
def test_preempting_takes_a_probe_of_launches_that_may_sleep(section, argument, hook):
    with raises("policy.other-interface", ProgramError):
        policy.load(PREEMPTS.format(section=section, argument=argument, hook=hook))


@pytest.mark.parametrize(("section", "expected"), [("uprobe.s", [(0,), ()]), ("uretprobe.s", [(), (0,)])])
def test_launches_are_probed_before_or_after_the_job_is_queued(section, expected):
    text = PREEMPTS.format(
        section=f"{section}/libcuda.so.1:cuLaunchKernel", argument="void *registers", hook=".on_bind = (void *)on_bind"
    )
    model = ModelMemory(policy.load(text), chunks=1, blocks=1, tenants=2)
    assert [model.launch(1, after) for after in (False, True)] == expected


def test_the_shipped_policy_takes_the_engine_from_those_that_asked_for_a_time_slice():
    result = accel_magic.gpuschedule(
        "preempt",
        "chat:work=1ms,every=30ms batch*2:work=20ms,asks=2048us other:work=20ms",
        duration_s=0.5,
        runs=1,
        settings={"critical.chat": 1},
    )
    (schedule,) = result.trials.trials[1].schedules
    (launches, known) = (int(result.maps["preempt"][".bss"][name].iloc[0]) for name in ("launches", "known"))
    chat = result.counts.loc["preempt", "chat"]
    assert (launches, known) == (chat["jobs"], 2)
    assert 0 < schedule.preempted.sum() <= launches
    assert schedule.preempted[[0, 3]].tolist() == [0, 0]
    assert result.tasks["preempted"].tolist() == [0] * 4 + schedule.preempted.tolist()
    # `other` cannot be preempted: it has a time slice of the default's.
    assert chat["worst_us"] <= 1000 + 2000


def test_time_slices_that_cuda_overwrites_are_told():
    text = """
#include "gpu_policy.h"
SEC("struct_ops/on_task_init")
int BPF_PROG(on_init, struct nv_gpu_task_init_ctx *task) { bpf_nv_gpu_set_timeslice(task, 300); return 0; }
SEC(".struct_ops.link") struct nv_gpu_sched_ops ops = { .on_task_init = (void *)on_init };
"""
    result = accel_magic.gpuschedule([text], "a:work=1ms b:work=1ms,asks=2048us", duration_s=0.05, runs=1)
    assert result.tasks.query("policy == 'policy'")["timeslice_us"].tolist() == [300, 2048]
    assert "timeslice-overwritten" in result.diagnose().ids
    assert policy.load("timeslices").lints == ()


DESTROYED = """
#include "gpu_policy.h"
u64 sum, ended;
SEC("struct_ops/on_task_destroy")
int BPF_PROG(on_end, struct nv_gpu_task_destroy_ctx *task) { sum += task->tsg_id; ended += 1; return 0; }
SEC("struct_ops/on_bind")
int BPF_PROG(on_bind, struct nv_gpu_bind_ctx *bind)
{
	if (bind->tsg_id == 1 && bind->allow && bind->channel_count && bind->timeslice_us == 2000)
		bpf_nv_gpu_reject_bind(bind);
	return 0;
}
SEC(".struct_ops.link") struct nv_gpu_sched_ops ops = { .on_bind = (void *)on_bind, .on_task_destroy = (void *)on_end };
"""


def test_binding_and_ending_are_told_to_the_policy():
    model = ModelMemory(policy.load(DESTROYED), chunks=1, blocks=1, tenants=4)
    assert [model.task(number, "t").admitted for number in range(4)] == [True, False, True, True]
    for number in (2, 3):
        model.task_end(number)
    (content,) = model.maps()
    assert np.frombuffer(content.raw[:16].tobytes(), np.uint64).tolist() in ([5, 2], [2, 5])


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("task->tsg_id = 1;", "write-to-object"),
        ("bpf_nv_gpu_set_timeslice((void *)&own, 1);", "wrong-argument"),
        ("bpf_nv_gpu_reject_bind((void *)task);", "wrong-argument"),
        ("own = *(u64 *)((void *)task + 64);", "out-of-bounds-object"),
    ],
)
def test_what_the_kernel_rejects_is_rejected_with_its_rule(body, rule):
    text = f"""
#include "gpu_policy.h"
SEC("struct_ops/on_task_init")
int BPF_PROG(on_init, struct nv_gpu_task_init_ctx *task) {{ volatile u64 own = 0; {body} return own; }}
SEC(".struct_ops.link") struct nv_gpu_sched_ops ops = {{ .on_task_init = (void *)on_init }};
"""
    with raises(f"gpu.verifier.{rule}"):
        policy.load(text)


def test_tenants_are_read():
    assert tenants.parse("chat*2:work=50us,every=10ms,random batch:work=5ms,start=1s,asks=2048us") == (
        *[Tenant("chat", 50, 10_000, random=True)] * 2,
        Tenant("batch", 5000, start_us=1e6, asks_us=2048),
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "chat", "chat:", "chat:every=1ms", "chat:work=0us", "chat:work=1", "chat*0:work=1us", "x*300:work=1us"),
        *("a:work=1us,asks=61s", "a:work=1us,asks=0.5us"),
        *("a_name_of_16_char:work=1us", "chat:work=1us,often", "1:work=1us", "chat:work=1us,,every=2us"),
    ],
)
def test_other_texts_are_typed_errors(text):
    with raises("policy.bad-tenant", ProbeError):
        tenants.parse(text)


@pytest.fixture(scope="module")
def talk():
    """Two latency-critical and four best-effort tenants."""
    return accel_magic.gpuschedule(
        "timeslices",
        "chat*2:work=50us,every=10ms,random batch*4:work=5ms",
        duration_s=0.3,
        runs=5,
        settings={"critical.chat": 1},
    )


def test_short_time_slices_and_the_runlist_bound_the_latency_of_critical_tenants(talk):
    chat = talk.counts.xs("chat", level="name")
    # At most one time slice of another, its own work and the other's of its level.
    assert chat.loc["timeslices", "worst_us"] <= 200 + 2 * 50
    assert chat.loc["default", "p99_us"] > 3 * 2000
    assert (talk.counts["fairness"] > 0.99).all()
    assert talk.counts["gpu_share"].groupby(level="policy").sum().to_numpy() == pytest.approx(1.0, abs=0.01)
    assert talk.diagnose().ids == ()
    assert talk.counts.loc["default", "jobs"].tolist()[0] == talk.counts.loc["timeslices", "jobs"].tolist()[0]


def test_mean_and_median_of_the_runs_p99_are_both_told(talk):
    jobs = talk.latencies.query("policy == 'default' and name == 'chat'").dropna()
    each = jobs.groupby("run")["latency_us"].quantile(0.99)
    assert talk.counts.loc[("default", "chat"), "p99_mean_us"] == pytest.approx(each.mean())
    assert talk.counts.loc[("default", "chat"), "p99_median_us"] == pytest.approx(each.median())
    heads = str(talk).splitlines()[3]
    assert "mean of P99" in heads
    assert "median of P99" in heads
    assert "modelled: no GPU was used" in str(talk)
    assert "modelled" in talk._repr_mimebundle_()["text/html"]
    assert len(talk.figure().renderers) == 2


def test_findings_tell_who_pays():
    swapped = {"critical.batch": 1, "critical_us": 20_000, "most": 1}
    found = accel_magic.gpuschedule(
        "timeslices", "chat*2:work=100us,every=2ms batch*2:work=5ms", duration_s=0.2, runs=3, settings=swapped
    )
    assert set(found.diagnose().ids) == {"tenants-rejected", "latency-grows", "tenant-starved-of-time"}
    assert found.counts.loc[("timeslices", "chat"), "rejected"] == 1
    assert "1 not admitted" in str(found)


def test_policies_of_another_kind_and_impossible_numbers_are_typed_errors():
    with raises("policy.other-table", ProbeError):
        accel_magic.gpuschedule("lru", "a:work=1ms")
    with raises("policy.other-table", ProbeError):
        accel_magic.gpupolicy("timeslices", "loop")
    for options in ({"duration_s": 0}, {"runs": 0}, {"switch_us": 1e9}):
        with raises("policy.bad-tenant", ProbeError):
            accel_magic.gpuschedule("timeslices", "a:work=1ms", **options)
    with raises("policy.no-engine", ProbeError):
        accel_magic.gpuschedule("timeslices", "a:work=1ms", engine="gpu")
    with raises("policy.bad-tenant", ProbeError):
        accel_magic.gpuschedule([], "a:work=1us b:work=1us", duration_s=900)


def test_switches_cost_what_was_said():
    free, dear = (
        accel_magic.gpuschedule([], "a*2:work=1ms", duration_s=0.1, runs=1, switch_us=cost) for cost in (0, 500)
    )
    shares = [one.counts["gpu_share"].sum() for one in (free, dear)]
    assert shares[0] == pytest.approx(1.0)
    (schedule,) = dear.trials.trials[0].schedules
    assert shares[1] == pytest.approx(1 - schedule.switches * 500 / 1e5, abs=0.01)
    assert schedule.switches >= 38
