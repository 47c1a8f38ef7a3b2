import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.subsystems.npu.buffers import buffers, churn, kind, leaks

KERNEL = 0xFFFF_8881_0000_0000  # objects are in the upper half of the address space
FILE = KERNEL + 0xF000
A, B, C = KERNEL + 0x1000, KERNEL + 0x2000, KERNEL + 0x3000


def row(frame, number=0):
    return {name: None if pd.isna(value) else value for name, value in frame.iloc[number].items()}


def test_a_buffer_is_described_from_creation_to_end(story):
    s = story()
    s.buffer(1000, A, tid=11, handle=7, size=8192, asked=5000, flags=0x20003, file=FILE)
    s.submit(2000, 1, tid=11, buffers=[A])
    s.submit(3000, 2, tid=11, buffers=[A])
    s.close(9000, 7, A, tid=11)

    assert row(buffers(s.trace())) == {
        "bo": A, "handle": 7, "size_bytes": 8192, "flags": 0x20003, "kind": "high memory, mappable, write-combined",
        "owner": "user", "pid": 10, "file": FILE, "comm": "load", "vpu_addr": 0x1000_0000 + A,
        "created_ns": 1000, "create_ns": 50,
        "bound_ns": 2020, "bind_ns": 10, "last_used_ns": 3020, "pages": 4, "jobs": 2, "closed_ns": 9000,
        "freed_ns": 9005, "lifetime_ns": 8005, "state": "freed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (0x0, "cached"),
        (0x2, "mappable, cached"),
        (0x10001, "high memory, uncached"),
        (0x2000E, "mappable, DMA range, read-only, write-combined"),
        (0x30000, "cache mode not known"),
    ],
)
def test_flags_have_the_kernels_meanings(flags, words):
    assert kind(flags) == words


def test_a_reused_address_is_another_buffer(story):
    s = story()
    for number, at in enumerate((1000, 2000, 3000)):
        s.buffer(at, A, handle=1, size=4096 * (number + 1))
        s.bind(at + 100, A, pages=number + 1)
        s.close(at + 200, 1, A)

    table = buffers(s.trace())
    assert table["size_bytes"].tolist() == [4096, 8192, 12288]
    assert table["pages"].tolist() == [1, 2, 3]
    assert table["freed_ns"].tolist() == [1205, 2205, 3205]


def test_an_address_belongs_to_the_next_buffer_only_once_its_creation_returned(story):
    s = story()
    s.buffer(1000, A, tid=11)
    s.hit("ivpu_gem_create_object", 2000, tid=21, lasts=500, size=4096, retval=A - (1 << 64))  # waits for the memory
    s.free(2100, A, tid=11)  # that this frees

    table = buffers(s.trace())
    assert table["state"].tolist() == ["freed", "alive at the end"]
    assert table["freed_ns"].dropna().to_dict() == {0: 2100}


def test_the_driver_owns_buffers_it_creates_for_itself_even_inside_a_submission(story):
    s = story()
    s.buffer(1000, A, handle=1)
    s.submit(2000, 1, buffers=[A])
    s.object(2040, B, size=4096)
    s.bind(2052, B, pages=1)
    s.object(500, C, tid=905)

    table = buffers(s.trace()).set_index("bo")
    assert table["owner"].to_dict() == {A: "user", B: "driver", C: "driver"}
    assert table["jobs"].dropna().to_dict() == {A: 1}
    assert table.loc[B, "pages"] == 1
    assert pd.isna(table.loc[B, "handle"])


def test_imported_memory_is_owned_by_the_user(story):
    s = story()
    s.hit("ivpu_bo_create_ioctl", 100, lasts=50, retval=0, size=4096, flags=0, handle=1, vpu_addr=0)
    s.object(105, A)
    s.hit("ivpu_gem_prime_import", 1000)
    s.object(1010, B)
    s.object(2000, C)

    table = buffers(s.trace()).set_index("bo")
    assert table["owner"].to_dict() == {A: "user", B: "user", C: "driver"}
    assert table.loc[B, "kind"] == "imported"


def test_buffers_older_than_the_trace_are_listed_with_what_is_known(story):
    s = story()
    s.traced |= {"ivpu_gem_create_object", "ivpu_bo_create_ioctl"}
    s.submit(1000, 1, buffers=[A, B])
    s.free(3000, B)
    s.buffer(4000, B)

    table = buffers(s.trace())
    assert table["state"].tolist() == ["created before the trace"] * 2 + ["alive at the end"]
    assert table["bo"].tolist() == [A, B, B]
    assert table["jobs"].tolist() == [1, 1, 0]
    assert table["freed_ns"].dropna().to_dict() == {1: 3000}
    assert table[["created_ns", "size_bytes", "pid"]].iloc[:2].isna().all(axis=None)


def test_a_failed_creation_has_no_object_and_one_rejected_later_no_handle(story):
    s = story()
    s.hit("ivpu_bo_create_ioctl", 1000, lasts=50, retval=-12, size=4096, flags=2)
    s.hit("ivpu_gem_create_object", 1005, lasts=10, size=4096, retval=-12)
    s.buffer(2000, A, retval=-28)
    s.free(2040, A)

    table = buffers(s.trace())
    assert table["bo"].tolist() == [A]
    assert row(table)["handle"] is None
    assert row(table)["state"] == "freed"


def test_a_rejected_job_used_no_buffer(story):
    s = story()
    s.buffer(1000, A)
    s.submit(2000, 1, buffers=[A], retval=-16)

    assert buffers(s.trace())["jobs"].tolist() == [0]


def test_a_buffer_that_is_bound_twice_in_one_job_was_part_of_one_job(story):
    s = story()
    s.buffer(1000, A)
    s.submit(2000, 1, buffers=[A, A])

    assert buffers(s.trace())["jobs"].tolist() == [1]


def test_handles_that_threads_close_and_reuse_simultaneously_are_distinguished(story):
    # Thread 12's buffer, created earlier, gets the number 1 during thread 11's close.
    s = story()
    s.buffer(1000, A, tid=11, handle=1)
    s.hit("ivpu_bo_create_ioctl", 2000, tid=12, lasts=200, retval=0, size=8192, flags=2, handle=1, vpu_addr=0)
    s.object(2005, B, tid=12)
    s.hit("drm_gem_close_ioctl", 2050, tid=11, lasts=100, retval=0, handle=1)
    s.free(2900, A, tid=905)  # a job held it
    s.hit("drm_gem_close_ioctl", 3000, tid=12, lasts=100, retval=0, handle=1)
    s.free(3900, B, tid=905)

    assert buffers(s.trace()).set_index("bo")["closed_ns"].to_dict() == {A: 2050, B: 3000}


def test_handles_of_two_open_devices_are_distinguished_by_the_device(story):
    s = story()
    s.buffer(1000, A, tid=11, handle=1, file=FILE)
    s.buffer(1100, B, tid=11, handle=1, file=FILE + 1)
    s.buffer(1200, C, tid=12, handle=1, file=FILE + 2)
    for at, file in ((2000, FILE), (2100, FILE + 1), (2200, FILE + 9)):  # the last is another driver's
        s.close(at, 1, tid=12, file=file)

    assert buffers(s.trace())["closed_ns"].dropna().to_dict() == {0: 2000, 1: 2100}


def test_a_missed_creation_is_found_when_its_handle_is_created(story):
    s = story()
    s.buffer(1000, A)
    s.free(2000, A)
    s.buffer(3000, A, size=8192, asked=5000)
    s.buffer(4000, B)
    s.submit(5000, 1, buffers=[A])
    s.object(6000, C)
    s.bind(6100, 0x5000)
    missed = {("ivpu_gem_create_object", 3005), ("ivpu_bo_create_ioctl", 4000)}
    s.events = [event for event in s.events if (event["function"], event["time_ns"]) not in missed]

    table = buffers(s.trace(missed=2))
    assert table["bo"].tolist() == [0x5000, A, A, B, C]
    assert table["owner"].dropna().to_dict() == {1: "user", 2: "user", 3: "user", 4: "driver"}
    assert table["size_bytes"].dropna().to_dict() == dict.fromkeys((1, 2, 3, 4), 8192)
    assert table["jobs"].dropna().to_dict() == {0: 0, 1: 0, 2: 1, 3: 0}
    # A creation or an end may have been missed; a reused address shows the end.
    assert table["state"].tolist() == ["not known", "freed", "not known", "not known", "not known"]


def test_the_drivers_functions_alone_show_the_number_and_owner_of_buffers(story):
    s = story()
    s.buffer(1000, A)
    s.submit(2000, 1, buffers=[A])
    s.object(2040, B)
    s.close(5000, 1, A)

    table = buffers(s.trace(columns=False))
    assert table["owner"].tolist() == ["user", "driver"]
    assert table["created_ns"].tolist() == [1000, 2040]
    assert table["state"].tolist() == ["not known"] * 2
    unknown = [
        "bo",
        "handle",
        "size_bytes",
        "flags",
        "pages",
        "jobs",
        "create_ns",
        "bound_ns",
        "freed_ns",
        "lifetime_ns",
    ]
    assert table[unknown].isna().all(axis=None)


def test_a_list_of_calls_without_times_shows_the_number_of_buffers(story):
    s = story()
    s.buffer(1000, A)
    s.submit(2000, 1, buffers=[A])
    s.object(2040, B)

    table = buffers(s.trace(columns=False, timed=False))
    assert len(table) == 2
    assert table.drop(columns="state").isna().all(axis=None)


def test_ioctls_alone_show_the_users_buffers(story):
    s = story()
    s.buffer(1000, A, handle=7, asked=5000)
    s.buffer(2000, B, retval=-12)

    table = buffers(s.trace(without=("ivpu_gem_create_object", "ivpu_gem_bo_open")))
    assert table["size_bytes"].tolist() == [8192]  # whole pages
    assert row(table)["handle"] == 7
    assert row(table)["bo"] is None


def test_an_empty_trace_has_no_buffers(story):
    table = buffers(story().trace())

    assert len(table) == 0
    assert len(leaks(story().trace(), table)) == len(churn(story().trace(), table)) == 0


def test_buffers_that_are_never_freed_are_leaks_of_their_process(story):
    s = story()
    for tid in (11, 21, 31, 41):
        s.hit("ivpu_open", 10 + tid, tid=tid)
        s.buffer(1000 + tid, KERNEL + tid * 0x1000, tid=tid, handle=1, size=4096 * tid)
        s.hit("ivpu_open", 20 + tid, tid=tid) if tid == 41 else None
    s.close(2000, 1, KERNEL + 11 * 0x1000, tid=11)  # closed
    s.hit("ivpu_postclose", 3000, tid=11)
    s.free(2900, KERNEL + 21 * 0x1000, tid=21)  # freed because the device is closed
    s.hit("ivpu_postclose", 3000, tid=21)
    s.hit("ivpu_postclose", 3000, tid=31)  # closed, but the buffer remains
    s.hit("ivpu_postclose", 3000, tid=41)  # one of two is closed

    table = leaks(s.trace(), buffers(s.trace()))
    assert table.index.tolist() == [20, 30]
    assert table[["left", "left_bytes", "outlived", "outlived_bytes", "kept"]].to_numpy().tolist() == [
        [1, 4096 * 21, 0, 0, 0],
        [0, 0, 1, 4096 * 31, 0],
    ]


def test_a_process_may_close_one_device_and_leak_there_while_another_is_open(story):
    s = story()
    s.traced |= {"ivpu_gem_bo_free", "drm_gem_close_ioctl"}
    for number, bo in enumerate((A, B)):
        s.hit("ivpu_open", 100 + number, tid=11, file=FILE + number)
        s.buffer(1000 + 100 * number, bo, tid=11, handle=1, file=FILE + number)
    s.hit("ivpu_postclose", 900, tid=11, file=FILE)  # the address belonged to another device before
    s.hit("ivpu_postclose", 3000, tid=11, file=FILE + 1)

    table = leaks(s.trace(), buffers(s.trace()))
    assert table[["outlived", "left", "kept"]].to_numpy().tolist() == [[1, 0, 0]]


def test_buffers_kept_per_job_are_distinguished_from_reused_ones(story):
    s = story()
    s.traced |= {"ivpu_gem_bo_free"}
    for number in range(5):
        s.buffer(1000 * (number + 1), KERNEL + number * 0x1000, tid=11, handle=number + 1)
        s.submit(1000 * (number + 1) + 500, number + 1, tid=11, buffers=[KERNEL + number * 0x1000])
    s.buffer(100, A + 0x100000, tid=21)
    for number in range(5):
        s.submit(1000 * (number + 1) + 700, number + 11, tid=21, buffers=[A + 0x100000])

    table = leaks(s.trace(), buffers(s.trace()))
    assert table.index.tolist() == [10]
    assert table[["kept", "kept_bytes"]].to_numpy().tolist() == [[4, 4 * 8192]]  # the last one may still be used


def test_with_missed_hits_no_leak_is_reported(story):
    s = story()
    s.traced |= {"ivpu_gem_bo_free", "drm_gem_close_ioctl"}
    s.buffer(1000, A, tid=11)
    s.buffer(1100, B, tid=11, handle=2)
    s.free(2000, B, tid=11)
    s.hit("ivpu_postclose", 3000, tid=11)

    assert leaks(s.trace(), buffers(s.trace()))[["left", "outlived"]].to_numpy().tolist() == [[1, 1]]
    for missing in ({"lost": 1}, {"missed": 1}):
        assert len(leaks(s.trace(**missing), buffers(s.trace(**missing)))) == 0


def test_without_closed_handles_no_left_buffers_are_reported(story):
    s = story()
    s.buffer(1000, A)
    s.free(2000, A)

    trace = s.trace()
    assert len(leaks(trace, buffers(trace))) == 0


def test_churn_is_reported_per_process_with_its_cost(story):
    s = story()
    for number in range(4):
        at = 1000 * (number + 1)
        s.buffer(at, A, tid=11, handle=1, size=4096)
        s.submit(at + 100, number + 1, tid=11, buffers=[A])
        s.close(at + 500, 1, A, tid=11)
    s.buffer(500, B, tid=21, handle=1)
    for number in range(4):
        s.submit(6000 + 1000 * number, number + 11, tid=21, buffers=[B])
    s.buffer(600, C, tid=31)

    table = churn(s.trace(), buffers(s.trace()))
    names = ["created", "jobs", "freed", "single_use", "single_use_bytes", "create_ns", "bind_ns"]
    assert table[names].to_numpy().tolist() == [
        [4, 4, 4, 4, 4 * 4096, 200, 40],
        [1, 4, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0],
    ]
    assert table["created_per_job"].tolist()[:2] == [1.0, 0.25]
    assert np.isnan(table["created_per_job"].iloc[2])


@st.composite
def lives(draw):
    """Buffers of a few threads that share few addresses and handles, each address used by one at a time."""
    time, alive, buffers_made = 1000, {}, []
    for _ in range(draw(st.integers(0, 40))):
        time += draw(st.integers(100, 400))
        slot = draw(st.integers(0, 4))
        if slot not in alive:
            alive[slot] = {"created": time, "bo": KERNEL + slot * 0x1000, "tid": draw(st.sampled_from([11, 12, 21])),
                           "handle": slot + 1, "binds": [], "freed": None, "closed": None}  # fmt: skip
            buffers_made.append(alive[slot])
        elif draw(st.booleans()):
            alive[slot]["binds"].append((time, draw(st.integers(0, 5))))
        else:
            life = alive.pop(slot)
            life["closed"] = time
            life["freed"] = time + 5
    return buffers_made


@given(lives())
def test_every_buffer_of_a_random_story_is_found_with_its_own_events(story_type, buffers_made):
    s = story_type()
    s.traced |= {"ivpu_bo_bind", "ivpu_mmu_context_map_page", "ivpu_gem_bo_free", "drm_gem_close_ioctl"}
    for life in buffers_made:
        s.buffer(life["created"], life["bo"], tid=life["tid"], handle=life["handle"])
        for at, pages in life["binds"]:
            s.bind(at, life["bo"], tid=life["tid"], pages=pages)
        if life["closed"]:
            s.close(life["closed"], life["handle"], life["bo"], tid=life["tid"])

    table = buffers(s.trace()).astype(object)
    columns = ["created_ns", "bo", "pid", "bound_ns", "pages", "closed_ns", "freed_ns"]
    assert table[columns].where(table[columns].notna(), None).to_numpy().tolist() == [
        [
            life["created"], life["bo"], life["tid"] // 10 * 10, life["binds"][0][0] if life["binds"] else None,
            sum(pages for _, pages in life["binds"]), life["closed"], life["freed"],
        ]
        for life in buffers_made
    ]  # fmt: skip
