"""Options as fields of dataclasses: their parser, defaults of `%config`, documentation and checks."""

import argparse
from dataclasses import dataclass

import pytest
from traitlets import HasTraits, TraitError

from accel_magic.api.option_table import add_options, check_choices, count, documented, given_of, option, options_of
from accel_magic.errors import ProbeError
from accel_magic.magics.traced import traits_of


@documented
@dataclass(frozen=True)
class Brewing:
    """How tea is made."""

    kind: str = option("green", "what is brewed", choices=("green", "black"))
    cups: int | None = option(None, "cups for {guests}", metavar="N", kinds=(int,), unset="one each", convert=count)
    rest: bool | float = option(
        False, "wait", metavar="S", kinds=(bool, float), on_line={"nargs": "?", "const": True}, negated="do not wait"
    )
    milk: bool = option(False, "with milk", "with **milk**", kinds=(bool,))
    leaves: dict = option({}, "leaves", factory=dict, flags="--with", on_line={"action": "append"})
    private: int = 7


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_options(parser, Brewing, {"guests": "everyone"}, without=("leaves",))
    return given_of(parser.parse_args(words), Brewing)


def test_only_what_is_on_the_line_is_given_under_the_names_of_the_fields():
    assert parsed() == {}
    assert parsed("--kind", "black", "--cups", "3", "--rest", "--milk") == {
        "kind": "black",
        "cups": 3,
        "rest": True,
        "milk": True,
    }
    assert parsed("--no-rest", "--no-milk") == {"rest": False, "milk": False}


@pytest.mark.parametrize("words", [["--kind", "red"], ["--cups", "0"], ["--with", "x"], ["--private", "1"]])
def test_other_values_and_options_are_rejected(words):
    with pytest.raises(SystemExit):
        parsed(*words)


def test_the_help_has_the_default_and_the_texts_of_the_parser():
    parser = argparse.ArgumentParser(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=200))
    add_options(parser, Brewing, {"guests": "everyone"})
    shown = parser.format_help()

    assert "what is brewed (green)" in shown
    assert "cups for everyone (one each)" in shown
    assert "--with LEAVES" in shown
    assert "do not wait" in shown


def test_config_can_set_what_has_a_kind_and_the_class_documents_all():
    settings = type("Settings", (HasTraits,), traits_of(Brewing))()

    assert set(settings.trait_names(config=True)) == {"kind", "cups", "rest", "milk"}
    assert {getattr(settings, name) for name in settings.trait_names()} == {None}
    settings.kind, settings.cups, settings.rest, settings.milk = "black", 3, 2.5, True
    settings.rest = False
    for name, wrong in (("kind", "red"), ("cups", "many"), ("rest", "long"), ("milk", "some")):
        with pytest.raises(TraitError):
            setattr(settings, name, wrong)
    assert [one.name for one in options_of(Brewing)] == ["kind", "cups", "rest", "milk", "leaves"]
    assert "How tea is made.\n\nAttributes:\n    kind: what is brewed\n" in Brewing.__doc__
    assert "    milk: with **milk**\n" in Brewing.__doc__


def test_values_outside_the_choices_are_an_error_with_the_choices():
    check_choices(Brewing(kind="black"))

    with pytest.raises(ProbeError, match="kind='red' is not known") as error:
        check_choices(Brewing(kind="red"))
    assert error.value.fix == "use one of green, black"
    assert Brewing().leaves == {}
