"""The options that say which racks and nodes are meant; every verb that asks nodes takes the same."""

from __future__ import annotations

from typing import Annotated

import typer

RackOption = Annotated[str | None, typer.Option("--rack", help="Only these racks, e.g. 1,3-5.", show_default=False)]
NodesOption = Annotated[
    str | None,
    typer.Option(
        "--nodes",
        metavar="SET",
        help="Only these nodes: 'rack[01-64]-n[01-18]', with , ! & ^ and *. @all, @failed and @incomplete: all, and "
        "those of the last recorded validation.",
        show_default=False,
    ),
]
ExcludeOption = Annotated[
    str | None,
    typer.Option("--exclude", metavar="SET", help="Not these nodes, e.g. 'rack07-n11' or @failed.", show_default=False),
]
PickOption = Annotated[
    int | None,
    typer.Option("--pick", min=1, metavar="N", help="As many of these nodes, drawn by chance.", show_default=False),
]
