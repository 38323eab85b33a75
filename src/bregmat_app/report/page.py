"""The page: renders the sections with the templates and writes the file in one step."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bregmat import __version__
from bregmat.engine.result import verdict
from bregmat.io import atomic_write
from bregmat_app.report.data import ReportData
from bregmat_app.report.sections import headline, sections

if TYPE_CHECKING:
    from jinja2 import Environment


def render_report(data: ReportData) -> str:
    """Render the report as one HTML document, which loads nothing from elsewhere."""
    page = _templates().get_template("page.html")
    return page.render(
        data=data,
        headline=headline(data),
        verdict=verdict(data.result),
        sections=sections(data),
        version=__version__,
    )


def write_report(path: str | os.PathLike[str], data: ReportData) -> Path:
    """Write one self-contained HTML file that opens offline.

    The file is written under a temporary name and then renamed, so that it is complete or absent. It replaces an older one.

    Parameters
    ----------
    path : str or path-like
        The file; its folder must exist, or it is an OSError.
    data : ReportData
        The content.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import MetricLearner
    >>> from bregmat_app.report import ReportData, write_report
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


@cache
def _templates() -> Environment:
    """Return the templates; they escape every value."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError('a report needs Jinja2: pip install "bregmat[plot]"') from error
    return Environment(
        loader=PackageLoader("bregmat_app.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
