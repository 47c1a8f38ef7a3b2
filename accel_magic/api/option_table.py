"""Options of traces, each declared once: as a field of a frozen dataclass.

The field gives the option's name and default. What is declared with it makes the option of the parsers, the trait of
`%config`, the paragraph in the dataclass's documentation and the row of the table in docs/ (`tools/option_tables.py`).
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
_KEY: Final = "option"
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Option:
    """How an option is written and what it means.

    Attributes:
        name: Name in Python: that of the field.
        default: Its value if it is not given.
        help: One line for `--help`; texts in braces are filled in by the parser, such as `{traced}`.
        meaning: For the documentation, in Markdown; '' if it is the same as `help`.
        flags: How it is written on a line, separated by spaces; '' for `--` and its name.
        metavar: Name of the value in help texts.
        choices: All possible values; empty if there are others.
        kinds: Types of the values that `%config` may set; empty if it may set none.
        unset: What applies if nothing is given, where the default does not say this.
        convert: Reads its value; None for text.
        on_line: More arguments of `ArgumentParser.add_argument`.
        negated: Help of `--no-NAME` for an option that is not a plain switch; '' if there is none.

    """

    name: str = ""
    default: Any = None
    help: str
    meaning: str = ""
    flags: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    kinds: tuple[type, ...] = ()
    unset: str = ""
    convert: Callable[[str], Any] | None = None
    on_line: Mapping[str, Any] = field(default_factory=dict)
    negated: str = ""

    @property
    def shown_default(self) -> str:
        """The default, for people; '' if there is nothing to say."""
        if self.unset:
            return self.unset
        if isinstance(self.default, bool) or not isinstance(self.default, int | float | str):
            return ""
        return self.default if isinstance(self.default, str) else f"{self.default:,}".removesuffix(".0")

    def add_to(self, parser: argparse.ArgumentParser, texts: Mapping[str, str]) -> None:
        """Add it to a parser; its value is None if it is not given."""
        text = self.help.format_map(texts)
        default = f" ({self.shown_default})" if self.shown_default else ""
        more: dict[str, Any] = {"dest": self.name, "default": None, "help": f"{text}{default}", **self.on_line}
        if self.kinds == (bool,):
            from argparse import BooleanOptionalAction  # without a command line or a magic, nothing parses

            more["action"] = BooleanOptionalAction
        if self.convert is not None:
            more["type"] = self.convert
        if self.metavar:
            more["metavar"] = self.metavar
        if self.choices:
            more["choices"] = self.choices
        parser.add_argument(*self.flags.split(), **more)
        if self.negated:
            negative = f"--no-{self.name.replace('_', '-')}"
            parser.add_argument(negative, dest=self.name, action="store_const", const=False, help=self.negated)


def option(default: T, text: str, meaning: str = "", *, factory: Callable[[], T] | None = None, **more: Any) -> T:
    """Declare a field as an option.

    Args:
        default: The field's default.
        text: The `help` of the option.
        meaning: Its meaning.
        factory: Makes the default, if that can be modified.
        **more: Other attributes of `Option`.

    """
    metadata = {_KEY: Option(help=text, meaning=meaning, **more)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def options_of(kind: type) -> tuple[Option, ...]:
    """The options that the fields of a dataclass are, in their order."""
    found = []
    for one in fields(kind):
        made: Option | None = one.metadata.get(_KEY)
        if made is not None:
            flags = made.flags or f"--{one.name.replace('_', '-')}"
            default = None if one.default is MISSING else one.default
            kinds = made.kinds or ((str,) if made.choices else ())
            found.append(replace(made, name=one.name, default=default, flags=flags, kinds=kinds))
    return tuple(found)


def documented(kind: type[T]) -> type[T]:
    """Add the options to the documentation of a dataclass: a decorator, used above `dataclass`."""
    lines = [f"    {one.name}: {one.meaning or one.help}" for one in options_of(kind)]
    kind.__doc__ = "\n".join([(kind.__doc__ or "").strip(), "", "Attributes:", *lines, ""])
    return kind


def add_options(
    parser: argparse.ArgumentParser, kind: type, texts: Mapping[str, str] = _NONE, without: Iterable[str] = ()
) -> None:
    """Add the options of a dataclass to a parser; one that is not given is None.

    Args:
        parser: The parser to extend.
        kind: The dataclass.
        texts: What is filled into the help texts.
        without: Names of options to leave out.

    """
    for one in options_of(kind):
        if one.name not in without:
            one.add_to(parser, texts)


def given_of(values: argparse.Namespace, kind: type) -> dict[str, Any]:
    """Return the options of a dataclass that were given, by their names."""
    given = {one.name: getattr(values, one.name, None) for one in options_of(kind)}
    return {name: value for name, value in given.items() if value is not None}


def check_choices(options: object) -> None:
    """Require that every option with fixed values has one of them. Raises ProbeError."""
    for one in options_of(type(options)):
        value = getattr(options, one.name)
        if one.choices and value not in one.choices and not (value is None and one.default is None):
            raise ProbeError(
                f"{one.name}={value!r} is not known",
                fix=f"use one of {', '.join(one.choices)}",
                code="option.unknown-value",
            )


def positive(text: str, convert: Callable[[str], float], what: str) -> Any:
    """Read a number above 0 and below 1e15. Raises argparse.ArgumentTypeError, which the parser reports."""
    try:
        value = convert(text)
    except ValueError:
        value = 0
    if not 0 < value < 1e15:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not {what}")
    return value


def count(text: str) -> int:
    """Read a count."""
    return int(positive(text, int, "a positive whole number"))


def seconds(text: str) -> float:
    """Read a duration in seconds."""
    return float(positive(text, float, "a positive number of seconds"))


def mebibytes(text: str) -> float:
    """Read a memory size in MiB."""
    return float(positive(text, float, "a positive number of MiB"))
