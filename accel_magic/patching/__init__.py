"""Probes without a trap: functions of this process, whose first instructions are replaced by a jump to our code."""
