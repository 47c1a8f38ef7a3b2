"""The Python API: `trace`, `flame`, `gputrace`, `trace_program`, `trace_lab`, `replay`, `open`, and the doctor."""
