"""Payloads of records: the C statements that fill them, and the offset of each value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from accel_magic.kernel.attach import waits
from accel_magic.kernel.attachment import HEAD, STRING_SIZE, PayloadItem
from accel_magic.probes.captures import ARGUMENT_NAMES, DEFAULT_COLUMNS
from accel_magic.probes.plan import (
    FUNCTION_KINDS,
    KERNEL_KINDS,
    POINTED,
    RETURN_KINDS,
    Capture,
    ProbePoint,
    StackKind,
    TracepointField,
    UsdtArgument,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ARGUMENT_REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")
_SYSCALL_RETVAL_OFFSET = 16
_STACKS = {"kernel": "AM_KERNEL_STACK", "user": "AM_USER_STACK", "python": "AM_PYTHON_STACK"}
_CLASS_STEP = 16
"""Record sizes are rounded up to multiples of this, because each size needs its own ring."""


@dataclass(frozen=True)
class Payload:
    """Payload of a point: its C statements, items and size; values that the entry must save; the value to add up."""

    statements: str = ""
    items: tuple[PayloadItem, ...] = ()
    size: int = 0
    saved: tuple[str, ...] = ()
    total: str = ""


class _Writer:
    """Lays out values in a payload one after another, 8-byte aligned.

    Args:
        hides: Replace the kernel's addresses (bpf/kernel/for_user.h).

    """

    def __init__(self, *, hides: bool = False) -> None:
        self._hides = hides
        self.statements: list[str] = []
        self.items: list[PayloadItem] = []
        self.size = 0

    def put(self, name: str, type_: str, value: str) -> None:
        self.statements.append(f"AM_PUT({self.size}, {f'AM_HIDDEN({value})' if self._hides else value})")
        self.items.append(PayloadItem(name, type_, self.size))
        self.size += 8

    def put_string(self, name: str, address: str, *, kernel: bool) -> None:
        macro = "AM_PUT_KERNEL_STRING" if kernel else "AM_PUT_USER_STRING"
        self.statements.append(f"{macro}({self.size}, {address})")
        self.items.append(PayloadItem(name, "string", self.size))
        self.size += STRING_SIZE

    def capture(self, capture: Capture, value: str, *, kernel: bool) -> None:
        if capture.type == "str":
            self.put_string(capture.name, value, kernel=kernel)
        else:
            self.put(capture.name, capture.type, value)

    def payload(self, saved: Iterable[str] = ()) -> Payload:
        return Payload(" ".join(self.statements), tuple(self.items), self.size, tuple(saved))


def _argument(index: int, *, kernel: bool) -> str:
    """An argument of a function at its entry; those without a register are on the stack above the return address."""
    on_stack = index - len(_ARGUMENT_REGISTERS)
    if on_stack < 0:
        return f"((u64)AM_REGISTERS->{_ARGUMENT_REGISTERS[index]})"
    macro = "AM_READ_KERNEL" if kernel else "AM_READ_USER"
    return f"((u64){macro}(u64, AM_STACK_POINTER + {8 * (on_stack + 1)}))"


def _in_memory(capture: Capture, address: str, *, kernel: bool) -> str:
    """Value of a capture whose source is `address`; for a `str` the pointer, from which the text is read later."""
    if capture.offset is None:
        return address
    type_ = "u64" if capture.type == "str" else capture.type
    macro = "AM_READ_KERNEL" if kernel else "AM_READ_USER"
    return f"((u64){macro}({type_}, {address} + {capture.offset}))"


def _usdt_value(argument: UsdtArgument) -> str:
    width = abs(argument.size)
    type_ = f"{'s' if argument.size < 0 else 'u'}{width * 8}"
    if argument.form == "constant":
        return f"((u64)({type_})({argument.value}LL))"
    if argument.form == "register":
        return f"((u64)({type_})AM_REGISTERS->{argument.register})"
    address = f"AM_REGISTERS->{argument.register} + ({argument.value}LL)"
    if argument.index:
        address += f" + AM_REGISTERS->{argument.index} * {argument.scale}"
    return f"((u64)AM_READ_USER({type_}, {address}))"


def accessors(point: ProbePoint) -> dict[str, str]:
    """Definitions of AM_ARGn and AM_RETVAL for this point's programs."""
    if point.kind == "usdt":
        return {f"AM_ARG{index}": _usdt_value(argument) for index, argument in enumerate(point.usdt_arguments)}
    names: dict[str, str] = {}
    if point.kind in FUNCTION_KINDS:
        kernel = point.kind in KERNEL_KINDS
        names.update({f"AM_{name.upper()}": _argument(at, kernel=kernel) for at, name in enumerate(ARGUMENT_NAMES)})
        names["AM_RETVAL"] = "((s64)AM_REGISTERS->ax)"
    elif point.latency:
        names["AM_RETVAL"] = f"AM_FIELD(s64, {_SYSCALL_RETVAL_OFFSET})"
    return names


def _column(field: TracepointField) -> str:
    """Column name of a tracepoint field: `pid_field` if events already have a `pid`."""
    return f"{field.name}_field" if field.name in DEFAULT_COLUMNS else field.name


def _tracepoint_payload(point: ProbePoint) -> Payload:
    end = max((field.offset + (4 if field.type == "string" else field.size) for field in point.fields), default=8)
    statements = [f"AM_COPY_FIELDS({end})"] if end > 8 else []
    size = -(-(end - 8) // 8) * 8
    items: list[PayloadItem] = []
    for field in point.fields:
        if field.type in ("string", POINTED):
            located = field.type == "string"
            copy = f"AM_COPY_STRING({size}, {field.offset})"
            follow = f"AM_PUT_KERNEL_STRING({size}, AM_FIELD(u64, {field.offset}))"
            statements.append(copy if located else follow)
            items.append(PayloadItem(_column(field), "string", size))
            size += STRING_SIZE
        else:
            items.append(PayloadItem(_column(field), field.type, field.offset - 8))
    return Payload(" ".join(statements), tuple(items), size)


def _latency_payload(point: ProbePoint, *, hides: bool = False) -> Payload:
    saved = list(point.filter.saved)

    def slot(expression: str) -> str:
        if expression not in saved:
            saved.append(expression)
        return f"AM_SAVED({saved.index(expression)})"

    writer = _Writer(hides=hides)
    writer.put("duration_ns", "s64", "AM_DURATION")
    writer.put("retval", "s64", "AM_RETVAL")
    if point.kind == "tracepoint":
        for field in point.fields:
            if field.name != "__syscall_nr" and field.type[0] in "us":
                writer.put(_column(field), field.type, slot(f"AM_FIELD({field.type}, {field.offset})"))
        return writer.payload(saved)
    kernel = point.kind in KERNEL_KINDS
    total = ""
    for capture in point.captures:
        if capture.source == "retval":
            value = _in_memory(capture, "AM_RETVAL", kernel=kernel)
        elif capture.at_return:
            value = _in_memory(capture, slot(_argument(int(capture.source[3:]), kernel=kernel)), kernel=kernel)
        else:
            value = slot(_in_memory(capture, _argument(int(capture.source[3:]), kernel=kernel), kernel=kernel))
        writer.capture(capture, value, kernel=kernel)
        total = value if capture.name == point.total else total
    return replace(writer.payload(saved), total=total)


def _wait_payload(stacks: Sequence[StackKind]) -> Payload:
    """Columns of a wait; its stacks are from the moment when the thread stopped."""
    writer = _Writer()
    for name, type_, value in waits.VALUES:
        writer.put(name, type_, value)
    for index, stack in enumerate(stacks):
        writer.put(f"{stack}_stack", "u64", f"wait.stacks[{index}]")
    return writer.payload(_STACKS[stack] for stack in stacks)


def _plain_payload(point: ProbePoint, *, hides: bool) -> Payload:
    if point.kind == "tracepoint":
        return _tracepoint_payload(point)
    writer = _Writer(hides=hides)
    on_return = point.kind in RETURN_KINDS
    if on_return:
        writer.put("retval", "s64", "AM_RETVAL")
    renamed = {capture.source for capture in point.captures if capture.offset is None}
    kernel, total = point.kind in KERNEL_KINDS, ""
    for index, argument in enumerate(point.usdt_arguments):
        if f"arg{index}" not in renamed:
            sign = "s" if argument.size < 0 else "u"
            writer.put(f"arg{index}", f"{sign}{abs(argument.size) * 8}", f"AM_ARG{index}")
    for capture in point.captures:
        address = "AM_RETVAL" if on_return else f"AM_ARG{capture.source[3:]}"
        value = _in_memory(capture, address, kernel=kernel)
        writer.capture(capture, value, kernel=kernel)
        total = value if capture.name == point.total else total
    return replace(writer.payload(), total=total)


def _with_stacks(payload: Payload, stacks: Iterable[StackKind], *, entered: bool) -> Payload:
    """Append the keys of the hit's stacks; those of a measured call are taken at its return.

    Args:
        payload: The payload before them.
        stacks: Kinds of stacks.
        entered: Whether the hit is a native function's entry: the return address is on top of the stack.

    """
    macros = {**_STACKS, "user": "AM_ENTERED_USER_STACK"} if entered else _STACKS
    statements, items, size = [payload.statements], list(payload.items), -(-payload.size // 8) * 8
    for stack in stacks:
        statements.append(f"AM_PUT({size}, {macros[stack]})")
        items.append(PayloadItem(f"{stack}_stack", "u64", size))
        size += 8
    return replace(payload, statements=" ".join(filter(None, statements)), items=tuple(items), size=size)


def payload_of(point: ProbePoint, stacks: Sequence[StackKind], *, hides: bool = False) -> Payload:
    """Lay out a point's payload, with the keys of these stacks at its end.

    Args:
        point: The point.
        stacks: Kinds of stacks.
        hides: Replace addresses of the kernel in values of its functions.

    """
    hides = hides and point.kind in KERNEL_KINDS
    if point.kind == "offcpu":
        return _wait_payload(stacks)
    if point.latency:
        return _with_stacks(_latency_payload(point, hides=hides), stacks, entered=False)
    return _with_stacks(_plain_payload(point, hides=hides), stacks, entered=point.kind == "uprobe")


def record_size(payload: Payload) -> int:
    """Bytes of a record including its head."""
    return HEAD.itemsize + -(-payload.size // _CLASS_STEP) * _CLASS_STEP


def saved_values(point: ProbePoint) -> int:
    """Number of values that a measured call's entry saves for its return."""
    return len(_latency_payload(point).saved)
