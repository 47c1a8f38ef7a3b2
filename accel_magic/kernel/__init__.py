"""The live kernel: BCC, programs, attaching, and what this kernel can do."""
