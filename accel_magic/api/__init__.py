"""What users call: `trace`, `flame`, `gputrace`, `trace_program`, `trace_lab`, `replay`, `open`, and the doctor."""
