"""Python expressions on a result `t` that show what a bpftrace script keeps in a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.probes.bpftrace.expressions import DURATION, ColumnExpression
from accel_magic.probes.bpftrace.script_parser import Expression, ScriptCall, ScriptNumber, ScriptOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SUMS: Final = {
    "sum": "sum()",
    "avg": "mean()",
    "min": "min()",
    "max": "max()",
    "stats": 'agg(["size", "mean", "sum"])',
}
_BY_POINT: Final = frozenset(("probe", "function"))
"""Keys by which the kernel always counts."""
_POWERS: Final = "[0, *(2**n for n in range(41))]"


@dataclass(frozen=True)
class Shown:
    """Python text; `needs_events`: it needs events, not only the kernel's counts."""

    text: str
    needs_events: bool = True


def of_map(
    sign: str, value: Expression, keys: Sequence[ColumnExpression], column: Callable[[Expression], ColumnExpression]
) -> Shown:
    """Show the content of a map assigned by `@map[keys] sign value`.

    Args:
        sign: `=` or another assignment.
        value: A map function (`count()`, `hist(x)`), or the value stored or added.
        keys: Columns of the keys.
        column: Finds the column for an expression. Raises LackingError if there is none.

    """
    name = value.name if isinstance(value, ScriptCall) else ""
    of = next(iter(value.arguments), None) if isinstance(value, ScriptCall) else None
    if name == "count" or (sign == "+=" and value == ScriptNumber(1)):
        return _count(keys)
    if name in ("hist", "lhist") and isinstance(value, ScriptCall) and of is not None:
        return _latency(keys) if DURATION in _terms(of) else Shown(_histogram(value, column(of), keys))
    if name in _SUMS and of is not None:
        return Shown(_aggregate(column(of), keys, _SUMS[name]))
    how = "sum()" if sign == "+=" else "last()" if keys else "iloc[-1]"
    return Shown(_aggregate(column(value), keys, how))


def _count(keys: Sequence[ColumnExpression]) -> Shown:
    if {key.name for key in keys} <= _BY_POINT:
        return Shown("t.counts", needs_events=False)
    if all(key.name == "stack" for key in keys):
        return Shown("t.stacks")
    return Shown(f"t.events{_grouped(keys)}.size()")


def _latency(keys: Sequence[ColumnExpression]) -> Shown:
    if {key.name for key in keys} <= _BY_POINT:
        return Shown('t.latency or t.figure("latency")', needs_events=False)
    return Shown(f't.events{_grouped(keys)}["duration_ns"].describe()')


def _histogram(value: ScriptCall, of: ColumnExpression, keys: Sequence[ColumnExpression]) -> str:
    edges = _POWERS
    numbers = [each.value for each in value.arguments[1:] if isinstance(each, ScriptNumber)]
    if value.name == "lhist" and len(numbers) == 3 and numbers[2]:
        low, high, step = numbers
        edges = f"range({low}, {high + step}, {step})"
    cut = f"pd.cut({of.text}, {edges}, right=False)"
    if not keys:
        return f"{cut}.value_counts(sort=False)"
    return f"{cut}{_grouped_by_text(keys)}.value_counts()"


def _aggregate(of: ColumnExpression, keys: Sequence[ColumnExpression], how: str) -> str:
    if not keys:
        return f"{of.text}.{how}" if of.name else f"({of.text}).{how}"
    if of.name:
        return f't.events{_grouped(keys)}["{of.name}"].{how}'
    return f"({of.text}){_grouped_by_text(keys)}.{how}"


def _grouped(keys: Sequence[ColumnExpression]) -> str:
    names = dict.fromkeys(key.name for key in keys)
    if not all(names):
        return _grouped_by_text(keys)
    listed = ", ".join(f'"{name}"' for name in names)
    return f".groupby({listed if len(names) == 1 else f'[{listed}]'}, observed=True)"


def _grouped_by_text(keys: Sequence[ColumnExpression]) -> str:
    return f".groupby([{', '.join(key.text for key in keys)}], observed=True)"


def _terms(expression: Expression) -> set[Expression]:
    found = {expression}
    if isinstance(expression, ScriptOperation):
        for each in expression.operands:
            found |= _terms(each)
    return found
