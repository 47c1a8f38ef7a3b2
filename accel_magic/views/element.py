"""The element that most results are drawn as: banners, headline, notes and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.views.templates import render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accel_magic.views.headline import Note
    from accel_magic.views.tables import FormattedTable


def element_html(
    tables: Iterable[FormattedTable | tuple[str, FormattedTable]],
    head: Iterable[Note] | str = (),
    *,
    banners: Iterable[str] = (),
    notes: Iterable[str] = (),
    template: str = "element",
    **values: object,
) -> str:
    """Draw one self-contained element.

    Args:
        tables: Tables, or tables in boxes with a title, which may be ''.
        head: Items of the headline, or its text.
        banners: Shown above everything else.
        notes: Shown below the headline.
        template: A template that extends `element`.
        values: What it uses besides.

    """
    return render(
        template,
        tables=[each if isinstance(each, tuple) else (None, each) for each in tables],
        head=head,
        banners=banners,
        notes=notes,
        **values,
    )
