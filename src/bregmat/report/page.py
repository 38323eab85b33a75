"""The page itself: sections in order, one style sheet, written to disk in one step."""

from __future__ import annotations

import os
from pathlib import Path

from bregmat import __version__
from bregmat._html import escape
from bregmat.io import atomic_write
from bregmat.report.data import ReportData
from bregmat.report.sections import sections

_FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", Arial, sans-serif'
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2126; --soft: #68717b; --line: #d9dee3; --wash: #f5f7f9;
  --good: #00724f; --bad: #b24700; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16191d; --ink: #e7eaee; --soft: #9aa4af; --line: #353c44; --wash: #1f242a;
    --good: #4cc79a; --bad: #f0965a; --lift: brightness(1.2); } }
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #555; --line: #ccc; --wash: #fff;
    --good: #00724f; --bad: #b24700; --lift: none; }
  figure, tr, .warnings { break-inside: avoid; } h2 { break-after: avoid; } main { max-width: none; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 FONTS; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line); }
p, li { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
.lead { font-size: 1.05rem; }
.note, figcaption, footer { color: var(--soft); font-size: .9rem; max-width: 46rem; }
figure { margin: 1rem 0 0; }
figure svg { display: block; width: 100%; height: auto; filter: var(--lift, none); }
figcaption { margin-top: .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; font-size: .95rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem 1.6rem .3rem 0; border-bottom: 1px solid var(--line);
  font-weight: normal; }
thead th { color: var(--soft); font-size: .85rem; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.summary td:last-child { font-weight: 600; }
.good { color: var(--good); }
.bad { color: var(--bad); }
.verdict { display: inline-block; font-weight: 600; border: 1px solid; border-radius: 4px; padding: .05rem .5rem; }
.warnings { border-left: 4px solid var(--bad); background: var(--wash); padding: .4rem 1rem; margin: 1rem 0; }
.warnings ul { margin: 0; padding-left: 1.1rem; }
td code { white-space: nowrap; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .92em; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
""".replace("FONTS", _FONTS)


def render_report(data: ReportData) -> str:
    """The report as one HTML document; nothing in it is loaded from elsewhere."""
    body = "\n".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>\n{content}\n</section>'
        for name, title, content in sections(data)
    )
    warnings = ""
    if len(data.warnings):
        items = "".join(f"<li>{escape(text)}</li>" for text in data.warnings)
        warnings = f'<div class="warnings" role="note"><ul>{items}</ul></div>'
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(data.title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><main>\n<h1>{escape(data.title)}</h1>\n{warnings}\n{body}\n"
        f"<footer>Made by bregmat {escape(__version__)}. This file is complete: it needs no network and no other file."
        "</footer>\n"
        "</main></body></html>\n"
    )


def write_report(path: str | os.PathLike[str], data: ReportData) -> Path:
    """Write one self-contained HTML file that opens offline.

    The file appears whole or not at all: it is written beside its place and then moved there, over an older one.

    Parameters
    ----------
    path : str or path-like
        Where to; the folder must exist.
    data : ReportData
        What to show.

    Returns
    -------
    Path
        Where it was written.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written to.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat.report import ReportData, write_report
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = MetricLearner(random_state=0).fit(X, y)
    >>> data = ReportData("Iris", learner.result_, X, learner.constraints_, y, learner=learner)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(pathlib.Path(folder) / "iris.html", data).name
    'iris.html'
    """
    page = render_report(data)
    with atomic_write(path) as file:
        file.write(page.encode())
    return Path(path)
