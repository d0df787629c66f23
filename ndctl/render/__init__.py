"""inventory + profile → ARM JSON and cloud-init; the same input gives the same bytes.

`names` and `places` are cheap to import; everything that needs Jinja is imported when `render` is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ndctl.render.inputs import RenderInput
    from ndctl.render.rendered import Rendered

__all__ = ["render"]


def render(loaded: RenderInput, public_key: str | None = None, templates: Path | None = None) -> Rendered:
    """See `ndctl.render.build.render`."""
    from ndctl.render.build import render as build

    return build(loaded, public_key, templates)
