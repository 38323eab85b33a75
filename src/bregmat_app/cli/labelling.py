"""The work of `bregmat label`: read the points, open the journal, serve the page until Ctrl-C."""

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bregmat.base.interrupts import interruptible
from bregmat_app.cli.intake import Intake, find_labels, find_sample_ids
from bregmat_app.cli.show import bad_input, fail, note, stdout, warn
from bregmat_app.label.learning import LabelSettings
from bregmat_app.label.points import LabelPoints, demo_points, pictures_in
from bregmat_app.label.session import Session

__all__ = ["LabelOptions", "label_points"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class LabelOptions:
    """What was asked for on the command line."""

    intake: Intake = field(default_factory=Intake)
    images: Path | None = None
    text: str | None = None
    prior: str = "auto"
    slack_weight: float = 10.0
    n_clusters: int | None = None
    journal: Path | None = None
    resume: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    open_browser: bool = True


def label_points(path: Path | None, options: LabelOptions) -> None:
    """Serve the page for a file of points, or for the demo."""
    if options.host in ("0.0.0.0", "::"):
        raise fail(f"--host {options.host} is no address that a browser can ask for; give the one that others use")
    with bad_input():
        try:
            from bregmat_app.label.safety import Doorkeeper
            from bregmat_app.label.server import listen, serve
        except ImportError as error:
            raise ImportError(f'`bregmat label` needs {error.name}: pip install "bregmat[cli,label]"') from error
        points = demo_points() if path is None else _read(path, options)
        prior = (
            ("identity" if points.pictures is not None else "variance") if options.prior == "auto" else options.prior
        )
        settings = LabelSettings(prior=prior, slack_weight=options.slack_weight)
        beside = Path("bregmat-label-demo.jsonl") if path is None else path.with_name(path.name + ".label.jsonl")
        session = Session(
            points, settings, options.journal or beside, resume=options.resume, n_clusters=options.n_clusters
        )
        try:
            listening = listen(options.host, options.port)
        except OSError:
            session.close()
            raise
    port = listening.getsockname()[1]
    address = f"[{options.host}]" if ":" in options.host else options.host

    def link(token: str) -> str:
        return f"http://{address}:{port}/?token={token}"

    def announce(token: str) -> None:
        note("the link was used before; a new one:")
        stdout().print(link(token), soft_wrap=True, markup=False)

    door = Doorkeeper(options.host, port, announce)
    if options.host not in _LOOPBACK:
        warn(f"the page can be reached from other machines at {options.host}, unencrypted; the link is all they need")
    try:
        with suppress(KeyboardInterrupt), interruptible():
            stdout().print(f"page    {link(door.token)}", soft_wrap=True, markup=False)
            stdout().print(f"journal {session.journal.path}", soft_wrap=True, markup=False)
            note("Ctrl-C ends it; --resume goes on.")
            with _opened(link(door.token) if options.open_browser else None):
                serve(session, door, listening)
    finally:
        listening.close()
        session.close()
    n_answers = len(session.answers.active())
    note(f"{n_answers} answers are kept in {session.journal.path}" if n_answers else "nothing was answered")


@contextmanager
def _opened(link: str | None) -> Iterator[None]:
    """Show a link in the browser, by a file that leads there: other users see the arguments of the browser's process, not the file."""
    if link is None:
        yield
        return
    from bregmat_app.label.safety import way_to

    with TemporaryDirectory(prefix="bregmat-label-") as folder:  # for its owner alone
        file = Path(folder) / "open.html"
        file.write_text(way_to(link), encoding="utf-8")
        webbrowser.open(file.as_uri())
        yield


def _read(path: Path, options: LabelOptions) -> LabelPoints:
    """Points with what is shown of them; ValueError names what is wrong."""
    intake = options.intake
    shown = () if options.text is None else (options.text,)
    points = intake.read(path, *shown)
    n = len(points.X)
    id_name, sample_id = find_sample_ids(points, intake.id_column)
    if sample_id is not None and len(np.unique(sample_id)) != n:
        warn(f"column {id_name!r} names some points twice; they are told apart by row numbers")
        sample_id = None
    rows = range(n) if points.rows is None else points.rows.tolist()
    names = [str(name) for name in (rows if sample_id is None else sample_id.tolist())]
    for remark in intake.remarks(points):
        warn(remark)
    classes = None
    if intake.labels is not None:
        values = intake.label_values(points)
        codes = find_labels(values, n, intake.labels, None)
        if codes.dtype.kind == "f":
            raise ValueError(
                f"labels {intake.labels!r} are not classes, and points are coloured by classes; leave --labels out"
            )
        words = np.asarray(values).astype(str)
        classes = [word if code >= 0 else "" for word, code in zip(words.tolist(), codes.tolist())]
    pictures = None
    if options.images is not None:
        named = next((column for column in ("image", "file", "filename", "path") if column in points.columns), None)
        if named is None and sample_id is None:
            raise fail("--images needs a column image, file, filename or path, or ids that pictures are named by")
        pictures = pictures_in(options.images, names if named is None else points.columns[named].astype(str).tolist())
    texts = None if options.text is None else points.columns[options.text].astype(str).tolist()
    return LabelPoints(
        title=path.name,
        X=np.asarray(points.X, dtype=np.float64),
        features=points.names,
        names=names,
        texts=texts,
        pictures=pictures,
        classes=classes,
        sample_id=sample_id,
        source=_source(path, intake.arguments(*shown), id_name if sample_id is not None else None),
    )


def _source(path: Path, arguments: dict[str, Any], id_name: str | None) -> str:
    """Python that reads the same points."""
    more = "".join(f", {name}={value!r}" for name, value in arguments.items())
    ids: Any = f"parse_sample_ids(points.columns[{id_name!r}])" if id_name is not None else "None"
    names = "parse_sample_ids, read_points" if id_name is not None else "read_points"
    return (
        f"from bregmat.io import {names}\n\npoints = read_points({str(path)!r}{more})\nX, sample_id = points.X, {ids}\n"
    )
