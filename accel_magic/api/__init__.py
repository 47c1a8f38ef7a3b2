"""The Python API: `trace`, `flame`, `gputrace`, `trace_program`, `trace_lab`, `replay`, `open`, and the doctor."""

import accel_magic.subsystems  # noqa: F401 - it provides the presets, without which no probes can be parsed
