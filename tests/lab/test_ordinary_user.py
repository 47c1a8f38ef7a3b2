"""A user without privilege in the lab's guest traces the real driver through a broker, beside another user."""

import json
import sys

import pytest

from accel_magic.lab.vm import ordinary_user
from accel_magic.lab.vm.lab import Lab, environment
from accel_magic.lab.vm.lab_settings import Settings
from tests.lab.conftest import DEADLINE_S, GUEST, KERNELS, TEST_S, build_image

OTHER = 2000
JOBS = 12


@pytest.fixture(scope="module", params=KERNELS)
def told(request, load_program):
    """What the script saw."""
    build_image(request.param)
    with Lab(Settings(kernel=request.param, deadline_s=DEADLINE_S, user="ordinary")) as lab:
        other = lab._guest.connection.start(
            [str(load_program), "--jobs", "1000000", "--rate", "20"],
            cwd="/",
            env=environment(lab.settings, lab.exchange, None, {}),
            terminal=None,
            on_output=lambda *_: None,
            user=(OTHER, OTHER),
        )
        done = lab.run([sys.executable, str(GUEST / "ordinary_user.py")], timeout=TEST_S / 2)
        assert done.status == 0, done.stderr.decode()
        assert other.poll() is None, "the other user's work has ended"
        assert lab.run(["cat", ordinary_user.AUDIT]).status == 1, "the user can read the audit"
        lab._guest.user = None
        audit = lab.run(["cat", ordinary_user.AUDIT]).text
    return json.loads(done.text.splitlines()[-1]) | {"audit": [json.loads(line) for line in audit.splitlines()]}


def test_the_user_has_no_right_and_the_kernels_memory_and_other_functions_are_refused(told):
    assert set(told["rights"]) == {"0000000000000000"}
    assert told["refused"] == ["broker.not-allowed"] * 4


def test_calls_are_exactly_those_that_the_user_made(told):
    for traced in (told["preset"], told["functions"]):
        assert traced["wrong"] == []
        assert traced["compared"] > 4 * JOBS
    assert "through the broker" in told["preset"]["headline"]
    assert told["preset"]["buffers"] == JOBS


def test_jobs_have_their_end_although_the_kernel_reports_it_in_a_thread_of_its_own(told):
    jobs, ok, done = told["preset"]["jobs"]
    assert (jobs, ok) == (JOBS, JOBS)
    assert done == JOBS


def test_events_are_the_users_the_kernels_or_nobodys(told):
    assert set(told["preset"]["who"]) <= {"own", "kernel", "nobody"}
    assert told["preset"]["who"]["kernel"] > 0
    assert set(told["functions"]["who"]) == {"own"}


def test_interrupts_are_counted_and_a_note_says_that_they_are_no_events(told):
    assert told["functions"]["interrupts"] > 0
    assert len(told["functions"]["notes"]) == 1


def test_the_kernels_addresses_are_hidden(told):
    # Addresses of the kernel's objects are multiples of 16, of the numbers for them only every 16th. There are few:
    # a new buffer is often where an old one was.
    numbers = [int(text, 16) for text in told["preset"]["addresses"]]
    assert len(numbers) > 2
    assert any(number % 16 for number in numbers), told["preset"]["addresses"]
    assert all(0xFFFF800000000000 <= number < 0xFFFFC00000000000 for number in numbers)


def test_each_trace_is_in_the_audit_with_its_probes(told):
    attached = [line["probes"] for line in told["audit"] if line["what"] == "attach" and line["decision"] == "allowed"]
    assert attached == [["npu"], ["intel_vpu:ivpu_*"]]
    assert all(line["uid"] == ordinary_user.ids()[0] for line in told["audit"])
