"""Available memory: that of the machine, limited by control groups of either version."""

import pytest

from accel_magic.free_memory import available_bytes

GIB = 1 << 30


@pytest.fixture
def put(tmp_path):
    def write(path, text):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(str(text))

    write("proc/meminfo", f"MemTotal: {32 * GIB >> 10} kB\nMemAvailable:   {20 * GIB >> 10} kB\n")
    return write


def test_without_limits_the_machines_memory_is_available(put, tmp_path):
    put("proc/self/cgroup", "0::/user.slice\n")
    put("sys/fs/cgroup/user.slice/memory.max", "max\n")
    put("sys/fs/cgroup/user.slice/memory.current", 5 * GIB)

    assert available_bytes(tmp_path) == 20 * GIB


def test_a_group_and_its_ancestors_limit_memory_and_their_file_cache_is_reclaimable(put, tmp_path):
    put("proc/self/cgroup", "0::/jobs/mine\n")
    put("sys/fs/cgroup/jobs/mine/memory.max", 8 * GIB)
    put("sys/fs/cgroup/jobs/mine/memory.current", 3 * GIB)
    put("sys/fs/cgroup/jobs/mine/memory.stat", f"anon 5\ninactive_file {GIB}\nactive_file 7\n")
    assert available_bytes(tmp_path) == 6 * GIB

    put("sys/fs/cgroup/jobs/memory.max", 10 * GIB)
    put("sys/fs/cgroup/jobs/memory.current", 9 * GIB)
    assert available_bytes(tmp_path) == 1 * GIB


def test_control_groups_of_the_first_version_limit_memory(put, tmp_path):
    put("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/mine\n0::/\n")
    put("sys/fs/cgroup/memory/mine/memory.limit_in_bytes", 4 * GIB)
    put("sys/fs/cgroup/memory/mine/memory.usage_in_bytes", GIB)
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", 9 * GIB)

    assert available_bytes(tmp_path) == 3 * GIB


def test_in_a_container_the_limit_of_the_root_group_applies(put, tmp_path):
    put("proc/self/cgroup", "0::/docker/4711\n")
    put("sys/fs/cgroup/memory.max", 2 * GIB)
    put("sys/fs/cgroup/memory.current", GIB)

    assert available_bytes(tmp_path) == GIB


def test_the_result_is_at_least_1_mib_and_more_on_this_machine(put, tmp_path):
    put("proc/self/cgroup", "0::/\n")
    put("sys/fs/cgroup/memory.max", GIB)
    put("sys/fs/cgroup/memory.current", 2 * GIB)

    assert available_bytes(tmp_path) == 1 << 20
    assert available_bytes() > 1 << 20
    assert available_bytes(tmp_path / "nowhere") > 1 << 50
