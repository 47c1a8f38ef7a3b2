"""Runs the NPU rules (`rules.py`) on a trace: collects each rule's evidence and turns it into findings."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from accel_magic.analysis.findings import Findings
from accel_magic.findings import SEVERITIES
from accel_magic.subsystems.npu.evidence import buffers, firmware, jobs
from accel_magic.subsystems.npu.evidence import firmware as power
from accel_magic.subsystems.npu.evidence import firmware as recording
from accel_magic.subsystems.npu.evidence import jobs as stuck
from accel_magic.subsystems.npu.rules import RULES, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.findings import Finding
    from accel_magic.subsystems.npu.evidence.common import Analysed, Evidence


CHECKS: Final[Mapping[str, Callable[[Analysed, Rule], Evidence | None]]] = MappingProxyType(
    {
        "nothing-traced": recording.nothing_traced,
        "events-lost": recording.events_lost,
        "event-limit": recording.event_limit,
        "hits-missed": recording.hits_missed,
        "boot-failed": firmware.boot_failed,
        "boot-slow": firmware.boot_slow,
        "request-unanswered": firmware.request_unanswered,
        "reply-duplicated": firmware.reply_duplicated,
        "job-hung": stuck.job_hung,
        "completion-lost": stuck.completion_lost,
        "job-timeout": stuck.job_timeout,
        "npu-reset": stuck.npu_reset,
        "jobs-failed": jobs.jobs_failed,
        "calls-failed": jobs.calls_failed,
        "completion-duplicated": jobs.completion_duplicated,
        "jobs-slow": jobs.jobs_slow,
        "boot-in-region": power.boot_in_region,
        "wake-per-job": power.wake_per_job,
        "jobs-serialised": jobs.jobs_serialised,
        "pages-remapped": buffers.pages_remapped,
        "buffers-churned": buffers.buffers_churned,
        "buffers-leaked": buffers.buffers_leaked,
        "allocation-tail": buffers.allocation_tail,
        "ipc-polling": firmware.ipc_polling,
        "ipc-storm": firmware.ipc_storm,
    }
)
"""The function that collects each rule's evidence."""


def diagnose(npu: Analysed) -> Findings:
    """Check all rules.

    Args:
        npu: The analyzed trace: `TraceResult.npu`.

    Returns:
        What was found, problems first; which rules were checked, and what the trace lacks for the others. No findings
        means that none of the checked rules applies.
    """
    lacking = {rule.id: why for rule in RULES if (why := _lacking(npu, rule))}
    checked = [rule for rule in RULES if rule.id not in lacking]
    evidence = {rule.id: found for rule in checked if (found := CHECKS[rule.id](npu, rule)) is not None}
    reported = [rule for rule in checked if rule.id in evidence and not evidence.keys() & set(rule.explained_by)]
    reported.sort(key=lambda rule: SEVERITIES.index(rule.severity))
    return Findings(
        items=tuple(_finding(rule, evidence[rule.id]) for rule in reported),
        checked=tuple(rule.id for rule in checked),
        unchecked=MappingProxyType(lacking),
        recording=npu.recording,
    )


def _lacking(npu: Analysed, rule: Rule) -> str:
    """What this trace lacks for a rule; '' if nothing."""
    if rule.timed and not npu.trace.timed:
        return "times"
    if not rule.counted and not len(npu.trace.events) and npu.trace.counts.any():
        return "events"
    if rule.needs and not npu.trace.saw(*rule.needs):
        return " or ".join(rule.needs)
    return ""


def _finding(rule: Rule, evidence: Evidence) -> Finding:
    return rule.finding(
        evidence.values, {name: _Count(value) for name, value in evidence.values.items()}, evidence.where
    )


class _Count(float):
    """A number in a title; its format may give the noun, singular and plural: `{jobs:job|jobs}`."""

    def __format__(self, words: str) -> str:
        one, _, several = words.partition("|")
        word = one if float(self) == 1 else several
        return f"{float(self):,.0f} {word}".rstrip()
