"""Where things are, from wherever in tests/ they are looked for."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
