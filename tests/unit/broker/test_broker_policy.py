"""The broker's policy: what it allows, and files that are not one."""

from dataclasses import replace

import pytest

from accel_magic.broker import broker_policy
from accel_magic.broker.broker_policy import BrokerPolicy
from accel_magic.broker.usage_table import Claim
from accel_magic.errors import MachineError, ProbeError
from accel_magic.probes.plan import Capture, Filter, ProbePoint, Scope
from tests.support.errors import raises
from tests.support.plans import plan_of

OWN = Scope("self", 1)
CALL = ProbePoint(0, "probe", "tracepoint", "syscalls", "sys_enter_openat", scope=OWN)

SAMPLES = replace(CALL, kind="profile", target="cpu-clock", rate_hz=51)
DRIVER = replace(CALL, kind="kprobe", target="intel_vpu", function="ivpu_open")
ARGS = "bo=arg0:u64"


@pytest.mark.parametrize(
    ("point", "refusal"),
    [
        (CALL, ""),
        (replace(CALL, kind="uprobe", target="/lib/libc.so.6", function="malloc"), ""),
        (replace(CALL, kind="profile", target="cpu-clock", rate_hz=999), ""),
        (replace(CALL, kind="kprobe", target="", function="vfs_read"), "those of intel_vpu"),
        (replace(CALL, kind="kprobe", target="xe", function="xe_open"), "those of intel_vpu"),
        (DRIVER, ""),
        (replace(DRIVER, captures=(Capture("bo", "arg0", "u64"),)), "--args would show"),
        (replace(DRIVER, filter=Filter("arg0 > 1", entry="((u64)(AM_ARG0)) > 1")), "--filter may use pid"),
        (replace(DRIVER, filter=Filter("retval < 0", exit="((s64)(AM_RETVAL)) < 0")), "--filter may use pid"),
        (replace(DRIVER, filter=Filter("arg1", exit="AM_DURATION", saved=("((u64)(AM_ARG1))",))), "--filter may use"),
        (replace(DRIVER, filter=Filter("pid == 1", entry="am_pid == 1")), ""),
        (replace(DRIVER, probe="npu:memory", captures=(Capture("size", "arg1", "u64"),)), ""),
        (replace(CALL, target="vpu", function="job"), ""),
        (replace(CALL, target="sched", function="sched_switch"), "of the tracepoints"),
        (replace(CALL, target="exceptions", function="page_fault_kernel"), "of the tracepoints"),
    ],
)
def test_points_are_allowed_or_refused_with_a_reason(point, refusal):
    if not refusal:
        BrokerPolicy().allow(plan_of((point,), args=ARGS))
        return
    with raises("broker.not-allowed", ProbeError) as caught:
        BrokerPolicy().allow(plan_of((CALL, point), args=ARGS))
    assert refusal in caught.value.why


def test_a_preset_that_is_not_listed_is_refused():
    point = replace(DRIVER, probe="npu:memory")
    with raises("broker.not-allowed", ProbeError, match="npu:memory"):
        BrokerPolicy(probes=broker_policy.Probes(presets=("openvino",))).allow(plan_of((point,)))


@pytest.mark.parametrize(
    ("point", "kernel"),
    [
        (CALL, ""),
        (DRIVER, "counts"),
        (replace(DRIVER, probe="npu:memory"), "counts"),
        (replace(DRIVER, probe="npu:ipc"), "events"),
        (replace(DRIVER, probe="npu:memory", target="drm"), ""),
        (replace(CALL, target="vpu", function="job"), "counts"),
        (replace(CALL, target="vpu", function="job", probe="npu:jobs"), "events"),
        (replace(CALL, target="dma_fence", function="dma_fence_init", probe="npu:jobs"), "owned"),
    ],
)
def test_what_kernel_threads_do_counts_for_drivers_only_and_is_shown_as_far_as_the_preset_says(point, kernel):
    (allowed,) = BrokerPolicy().allow(plan_of((point,))).points
    assert (allowed.scope.name, allowed.scope.pid, allowed.scope.kernel) == ("self", 1, kernel)
    assert bool(allowed.scope.object_field) == (kernel == "owned")


def test_a_trace_may_not_be_longer_than_allowed():
    plan = plan_of((CALL,), duration_s=11)
    BrokerPolicy().allow(plan)
    with raises("broker.limit", ProbeError):
        BrokerPolicy(limits=broker_policy.UserLimits(duration_s=10)).allow(plan)


@pytest.mark.parametrize(
    ("plan", "others", "why"),
    [
        (plan_of((CALL,) * 3), Claim(), "the limit places is 2"),
        (plan_of((CALL,)), Claim(places=2), "the limit places is 2, and the user's other traces have 2"),
        (plan_of((CALL,), buffer_mib=9), Claim(), "the limit buffer_mib is 8"),
        (plan_of((CALL,), buffer_mib=6), Claim(buffer_mib=2.5), "8, and the user's other traces have 2.5"),
        (plan_of((SAMPLES, replace(SAMPLES, rate_hz=50)), buffer_mib=1), Claim(), "the limit rate_hz is 100"),
        (plan_of((SAMPLES,), buffer_mib=1), Claim(rate_hz=60), "100, and the user's other traces have 60"),
    ],
)
def test_limits_are_of_all_traces_of_a_user_together(plan, others, why):
    narrow = BrokerPolicy(
        probes=broker_policy.Probes(rate_hz=100), limits=broker_policy.UserLimits(places=2, buffer_mib=8)
    )
    added = Claim.of(plan)
    BrokerPolicy().require_room(added, others + added)
    with raises("broker.limit", ProbeError) as caught:
        narrow.require_room(added, others + added)
    assert why in caught.value.why


def test_a_trace_that_takes_nothing_of_a_limit_that_others_exceed_is_allowed():
    counting = plan_of((CALL,), mode="count", buffer_mib=500)
    narrow = BrokerPolicy(limits=broker_policy.UserLimits(buffer_mib=8))
    narrow.require_room(Claim.of(counting), Claim(buffer_mib=9, places=1))


def written(folder, text, mode=0o644):
    path = folder / "broker.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path):
    text = '[probes]\ntracepoints = ["syscalls:*", "intel_vpu:*"]\n[limits]\ntraces = 2\nbuffer_mib = 16\n'
    found = broker_policy.load(written(tmp_path, text))
    assert found.probes == replace(BrokerPolicy().probes, tracepoints=("syscalls:*", "intel_vpu:*"))
    assert found.limits == replace(BrokerPolicy().limits, traces=2, buffer_mib=16.0)
    assert broker_policy.load(tmp_path / "nothing") == BrokerPolicy()


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("[user]\n", 0o644, "unknown part [user]"),
        ("[limits]\ntrace = 1\n", 0o644, "has no trace"),
        ("[limits]\ntraces = true\n", 0o644, "must be a number"),
        ("[limits]\ntraces = 1.5\n", 0o644, "must be a number"),
        ("[limits]\ntraces = -1\n", 0o644, "must be a number"),
        ('[users]\nnames = "all"\n', 0o644, "must be a list of texts"),
        ("[limits\n", 0o644, "line 1"),
        ("", 0o666, "only root"),
        ("", 0o664, "only root"),
    ],
)
def test_a_file_that_is_not_a_policy_is_refused_with_the_reason(tmp_path, text, mode, why):
    with raises("broker.bad-policy", MachineError) as caught:
        broker_policy.load(written(tmp_path, text, mode))
    assert why in caught.value.why


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to(written(tmp_path, ""))
    with raises("broker.bad-policy", MachineError):
        broker_policy.load(tmp_path / "link")


def test_users_are_admitted_by_name_or_group():
    assert BrokerPolicy().admits(61001, ())
    named = BrokerPolicy(users=broker_policy.Users(names=("root",)))
    assert (named.admits(0, ()), named.admits(61001, (0,))) == (True, False)
    grouped = BrokerPolicy(users=broker_policy.Users(names=(), groups=("root", "61*")))
    assert (grouped.admits(61001, (0,)), grouped.admits(61001, (61001,)), grouped.admits(0, (1,))) == (
        True,
        True,
        False,
    )
