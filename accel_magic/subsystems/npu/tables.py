"""Analysis of an NPU trace: families, phases, buffers, jobs, and problems."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from accel_magic.analysis.driver_trace import DriverTrace
from accel_magic.analysis.findings import diagnose
from accel_magic.views.diagnosis import Diagnosis

if TYPE_CHECKING:
    import pandas as pd

    from accel_magic.recording.recording import Recording


class NpuTables:
    """Tables of a trace of the NPU driver.

    Every table is computed on first use and kept. What the trace does not contain (times, captured values, functions
    that were not traced) is missing in the tables, never guessed.
    """

    def __init__(self, recording: Recording, events: pd.DataFrame) -> None:
        """`events` is the DataFrame of the recording's events, as in `TraceResult.events`."""
        self.recording = recording
        self.trace = DriverTrace.of(recording, events)

    @cached_property
    def families(self) -> pd.DataFrame:
        """Hits, share, rate and functions of each family; see `accel_magic.subsystems.npu.families`."""
        from accel_magic.subsystems.npu.families import families

        return families(self.trace)

    @cached_property
    def phases(self) -> pd.DataFrame:
        """The trace divided into boot, open, query, allocation, submission, wait, cleanup, idle: a row per interval."""
        from accel_magic.subsystems.npu.phases import phases

        return phases(self.trace)

    @cached_property
    def phase_totals(self) -> pd.DataFrame:
        """Intervals, calls and time of each phase."""
        from accel_magic.subsystems.npu.phases import phase_totals

        return phase_totals(self.phases)

    @cached_property
    def polls(self) -> pd.DataFrame:
        """Polling loops: the polling function, the cycle of calls, repeats, duration."""
        from accel_magic.subsystems.npu.polls import polls

        return polls(self.trace)

    @cached_property
    def messages(self) -> pd.DataFrame:
        """Messages to and from the firmware, without polls."""
        from accel_magic.subsystems.npu.messages import messages

        return messages(self.trace, self.polls)

    @cached_property
    def mappings(self) -> pd.DataFrame:
        """Mappings into the NPU's page tables: address, pages, duration."""
        from accel_magic.subsystems.npu.mappings import mappings

        return mappings(self.trace)

    @cached_property
    def buffers(self) -> pd.DataFrame:
        """One row per buffer object: size, flags, owner, latencies, pages, lifetime, state."""
        from accel_magic.subsystems.npu.buffers import buffers

        return buffers(self.trace)

    @cached_property
    def churn(self) -> pd.DataFrame:
        """Each process's buffers and jobs: how many buffers were created for a single job, and their cost."""
        from accel_magic.subsystems.npu.buffers import churn

        return churn(self.trace, self.buffers)

    @cached_property
    def leaks(self) -> pd.DataFrame:
        """Processes that closed the device, or ended, and left buffers behind."""
        from accel_magic.subsystems.npu.buffers import leaks

        return leaks(self.trace, self.buffers)

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """One row per job: submitted, queued, started, done, waited for; status, owner."""
        from accel_magic.subsystems.npu.jobs import jobs

        return jobs(self.trace)

    @cached_property
    def recoveries(self) -> pd.DataFrame:
        """Timeouts and recoveries: when, why, what was lost."""
        from accel_magic.subsystems.npu.jobs import recoveries

        return recoveries(self.trace, self.jobs)

    def throughput(self, freq: str = "100ms") -> pd.DataFrame:
        """Jobs submitted and completed per second, and in flight, over time; `freq` is a pandas offset."""
        from accel_magic.subsystems.npu.throughput import throughput

        return throughput(self.trace, freq, self.jobs)

    @cached_property
    def concurrency(self) -> pd.DataFrame:
        """How long each number of jobs was in flight at once."""
        from accel_magic.subsystems.npu.throughput import concurrency

        return concurrency(self.trace, self.jobs)

    @cached_property
    def calls(self) -> pd.DataFrame:
        """Level Zero call, ioctl, driver functions, IPC, interrupt and completion, linked: a row per step."""
        from accel_magic.subsystems.npu.layers import layers

        return layers(self.trace, self.jobs)

    @cached_property
    def api(self) -> pd.DataFrame:
        """Each Level Zero call: count, duration, and where its time went."""
        from accel_magic.subsystems.npu.level_zero_calls import api_summary

        return api_summary(self.trace, self.calls)

    @cached_property
    def findings(self) -> Diagnosis:
        """Problems and notes, with evidence; see `TraceResult.diagnose`."""
        from accel_magic.subsystems.npu.rules import RULES

        return Diagnosis.of(diagnose(RULES, self, self.recording))
