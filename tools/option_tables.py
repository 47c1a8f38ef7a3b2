"""Write the tables of options in docs/ from the options themselves: `python tools/option_tables.py [--check]`.

A table is between `<!-- %%MAGIC: made by tools/option_tables.py -->` and `<!-- end -->`. With --check nothing is
written, and the exit status is 1 if a table is not up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from accel_magic.api.flame_options import FlameOptions
from accel_magic.api.gpu_options import GpuOptions
from accel_magic.api.option_table import Option, options_of
from accel_magic.api.options import ClusterOptions, Common
from accel_magic.api.trace_options import Options

DOCS = Path(__file__).parent.parent / "docs"
SHARED = "as for [`%%ktrace`](reference.md#ktrace)"
ON_CLUSTER = "trace the workers of a cluster: [cluster.md](cluster.md#gpu-and-flame-traces-on-a-cluster)"


def spelled(option: Option) -> str:
    """How an option is written, with its values."""
    *_, first = option.flags.split()[:1]
    if option.kinds == (bool,):
        name = first.removeprefix("--")
        return f"`--{name}`, `--no-{name}`"
    value = "|".join(option.choices) or option.metavar
    if option.on_line.get("nargs") == "+":
        value = f"{value} ..."
    joined = f"{first} [{value}]" if option.on_line.get("nargs") == "?" else f"{first} {value}"
    return f"`{joined.strip()}`".replace("|", r"\|")


def row(option: Option) -> tuple[str, str, str]:
    """Its row of the table."""
    default = option.shown_default
    is_value = default and " " not in default
    return spelled(option), (option.meaning or option.help).replace("|", r"\|"), f"`{default}`" if is_value else default


def together(kinds: tuple[type, ...], meaning: str) -> tuple[str, str, str]:
    """One row for all options of some classes."""
    return ", ".join(spelled(option) for kind in kinds for option in options_of(kind)), meaning, ""


KTRACE = [
    *(row(option) for kind in (Options, ClusterOptions, Common) for option in options_of(kind)),
    ("`--program FILE.bpf.c`", "your own BCC program: [programs.md](programs.md)", ""),
    ("`--help`", "this list", ""),
]
FLAME, GPU = (
    [
        *(row(option) for option in options_of(kind)),
        together((ClusterOptions,), ON_CLUSTER),
        together((Common,), SHARED),
    ]
    for kind in (FlameOptions, GpuOptions)
)
TABLES = {"reference.md": ("%%ktrace", KTRACE), "flame.md": ("%%flame", FLAME), "gputrace.md": ("%%gputrace", GPU)}


def updated(page: str) -> str:
    """The text of a page with its table as the options are now."""
    magic, rows = TABLES[page]
    text = (DOCS / page).read_text("utf-8")
    before, begin, rest = text.partition(f"<!-- {magic}: made by tools/option_tables.py -->\n")
    _, end, after = rest.partition("<!-- end -->\n")
    if not begin or not end:
        raise SystemExit(f"{page} has no place for the table of {magic}")
    lines = ["| option | meaning | default |", "|---|---|---|", *(f"| {' | '.join(one)} |" for one in rows)]
    return "".join([before, begin, *(f"{line}\n" for line in lines), end, after])


def main() -> int:
    """Update the tables, or check them."""
    stale = [page for page in TABLES if updated(page) != (DOCS / page).read_text("utf-8")]
    for page in stale:
        if "--check" in sys.argv:
            print(f"docs/{page} is not up to date: run tools/option_tables.py", file=sys.stderr)
        else:
            (DOCS / page).write_text(updated(page), "utf-8")
            print(f"docs/{page}")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
