"""Analysis of recorded events: frames in, frames and findings out. Nothing here draws, traces or asks the machine."""
