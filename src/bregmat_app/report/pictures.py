"""Displays as inline SVG whose lines and text take the colours of the page, light or dark."""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from bregmat.base.html import escape
from bregmat.plots._style import PAPER, require_matplotlib

# Colours that no display uses otherwise, replaced in the SVG by the page's variables.
_PLACEHOLDERS: Mapping[str, str] = {
    "#010203": "var(--ink)",
    "#040506": "var(--soft)",
    "#070809": "var(--line)",
    PAPER.lower(): "var(--paper)",
}
_INK, _SOFT, _LINE, _ = _PLACEHOLDERS


def picture(draw: Callable[[Any], Any], *, name: str, size: tuple[float, float], alt: str) -> str:
    """Draw a new figure (its size is in inches) and return it as SVG text.

    `draw` is called with the only axes of the figure. The name is the prefix of all ids
    inside the SVG, because pictures on one page must not share them. `alt` describes the picture for readers who cannot see it.
    """
    require_matplotlib("a report")
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "text.color": _INK, "axes.labelcolor": _INK, "axes.titlecolor": _INK, "legend.labelcolor": _INK,
        "xtick.labelcolor": _INK, "ytick.labelcolor": _INK, "xtick.color": _SOFT, "ytick.color": _SOFT,
        "axes.edgecolor": _SOFT, "grid.color": _LINE,
        "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
        "font.size": 10.0, "axes.titlesize": 11.0, "svg.fonttype": "none", "svg.hashsalt": name,
    }  # fmt: skip
    with mpl.rc_context():
        mpl.rcdefaults()  # a report looks the same whatever the user's own settings are
        mpl.rcParams.update(settings)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        buffer = io.StringIO()
        with warnings.catch_warnings():
            # characters that the font of Matplotlib lacks; the browser has them
            warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, dpi=200)
    return _inline(buffer.getvalue(), name, size[0], alt)


def _inline(svg: str, name: str, width: float, alt: str) -> str:
    """Turn the SVG of Matplotlib into an element of a page, at most `width` inches wide."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\1{name}-", svg)  # ids and the references to them
    svg = svg.replace("xlink:href=", "href=").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")  # not needed inside HTML
    # text in the font of the page; Matplotlib writes "font-family: ...", before 3.10 within "font: ..."
    svg = re.sub(r"font-family: [^;\"]*(; )?", "", svg)
    svg = re.sub(r"(font: [^;\"']*?) ?'[^;\"]*", r"\1 sans-serif", svg)
    for placeholder, color in _PLACEHOLDERS.items():
        svg = svg.replace(placeholder, color)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)  # of the outer element
    style = f'style="max-width:{96 * width:.0f}px"'
    return svg.replace("<svg", f'<svg {style} role="img" aria-label="{escape(alt)}"', 1)
