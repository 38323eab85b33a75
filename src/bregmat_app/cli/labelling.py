"""The work of `bregmat label`: read the points, open the journal, serve the page until Ctrl-C."""

import webbrowser
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory

import numpy as np

from bregmat.base.html import listed
from bregmat.base.threads import interruptible
from bregmat.io.points import NoNumbersError
from bregmat_app.cli.options import ColumnOptions, PageOptions, names_in
from bregmat_app.cli.points import PointTable, find_labels, find_sample_ids, read_table
from bregmat_app.cli.show import note, stdout, warn
from bregmat_app.label.learning import LabelSettings
from bregmat_app.label.points import (
    LabelPoints,
    MadeFeatures,
    demo_points,
    picture_features,
    pictures_in,
    pictures_of,
    text_features,
)
from bregmat_app.label.session import Session

MOST_VALUES = 20  # cells of a row that are shown where there is neither a text nor a picture
LARGEST_WHOLE = 1e15  # whole numbers above are shown with an exponent
SOURCE = f"""from pathlib import {type(Path()).__name__}

from bregmat_app.cli.labelling import read_label_points
from bregmat_app.cli.options import ColumnOptions, PageOptions

points = read_label_points({{!r}}, {{}}, {{}})
"""


def label_points(path: Path | None, columns: ColumnOptions, options: PageOptions) -> None:
    """Serve the page for a file of points, or for the demo, until Ctrl-C."""
    session, listening = _open(path, columns, options)
    from bregmat_app.label.safety import AccessControl, redirect_page
    from bregmat_app.label.server import serve

    port = listening.getsockname()[1]

    def link(token: str) -> str:
        return f"http://127.0.0.1:{port}/?token={token}"

    def announce(token: str) -> None:
        note("the link was used before; a new one:")
        stdout().print(link(token), soft_wrap=True, markup=False)

    access = AccessControl(port, announce)
    try:
        with suppress(KeyboardInterrupt), interruptible():
            stdout().print(f"page    {link(access.token)}", soft_wrap=True, markup=False)
            stdout().print(f"journal {session.journal.path}", soft_wrap=True, markup=False)
            note("Ctrl-C ends it; --resume continues.")
            with TemporaryDirectory(prefix="bregmat-label-") as folder:  # only its owner can read it
                if not options.no_browser:
                    # Other users of the machine can see the arguments of the browser's process, but not a file that redirects it.
                    file = Path(folder) / "open.html"
                    file.write_text(redirect_page(link(access.token)), encoding="utf-8")
                    webbrowser.open(file.as_uri())
                serve(session, access, listening)
    finally:
        listening.close()
        session.close()
    n_answers = len(session.answers.active())
    note(f"{n_answers} answers are kept in {session.journal.path}" if n_answers else "nothing was answered")


def _open(path: Path | None, columns: ColumnOptions, options: PageOptions) -> tuple[Session, socket]:
    """Read the points, open the journal and listen for the browser."""
    try:
        from bregmat_app.label.server import listen
    except ImportError as error:
        raise ImportError(f'`bregmat label` needs {error.name}: pip install "bregmat[cli,label]"') from error
    points, given = read_label_points(path, columns, options), path or options.images
    beside = Path("bregmat-label-demo.jsonl") if given is None else given.with_name(given.name + ".label.jsonl")
    named = f"features ({len(points.features)}): "
    note(named + (points.made or listed(points.features, 20)))
    settings = LabelSettings(prior=options.prior, slack_weight=options.slack_weight)
    session = Session(
        points,
        settings,
        options.journal or beside,
        resume=options.resume,
        classes=names_in(options.classes),
    )
    try:
        return session, listen(options.port)
    except OSError:
        session.close()
        raise


def read_label_points(path: Path | None, columns: ColumnOptions, options: PageOptions) -> LabelPoints:
    """Read the points of the page: a table, a folder of pictures, or the demo."""
    if path is not None:
        points = _read(path, columns, options)
    else:
        points = demo_points() if options.images is None else _read_folder(options.images)
    shown = PageOptions(text=options.text, images=options.images)
    return replace(points, source=SOURCE.format(path, _code(columns), _code(shown)))


def _code(options: ColumnOptions | PageOptions) -> str:
    """Return Python code that makes the options again."""
    values = [(field, getattr(options, field.name)) for field in fields(options)]
    given = ", ".join(f"{field.name}={value!r}" for field, value in values if value != field.default)
    return f"{type(options).__name__}({given})"


def _read(path: Path, columns: ColumnOptions, options: PageOptions) -> LabelPoints:
    """Read the points and what is shown of them; ValueError names what is wrong."""
    shown = () if options.text is None else (options.text,)
    is_shown = options.text is not None or options.images is not None
    try:
        table = read_table(path, columns, *shown, may_lack_numbers=is_shown)
    except NoNumbersError as error:
        raise ValueError(f"{error}; --text COLUMN or --images FOLDER makes features of texts or pictures") from error
    points = table.points
    id_name, sample_id = find_sample_ids(points, columns.id_column)
    if sample_id is not None and len(np.unique(sample_id)) != len(sample_id):
        warn(f"column {id_name!r} names some points twice; they are distinguished by row numbers")
        sample_id = None
    has_ids = sample_id is not None
    if not has_ids:
        sample_id = points.rows  # numbers of the rows that are left of the file
    names = [str(name) for name in (range(len(points.X)) if sample_id is None else sample_id.tolist())]
    for remark in [*table.remarks(), *(table.unused(id_name, *shown, can_encode=False) if points.names else [])]:
        warn(remark)
    texts = _texts(table, options, id_name)
    pictures = None
    if options.images is not None:
        pictures = pictures_in(options.images, _picture_names(table, names if has_ids else None))
    if points.names:
        found = MadeFeatures(np.asarray(points.X, dtype=np.float64), points.names)
    else:
        found = picture_features(pictures or []) if texts is None else text_features(texts)
    return LabelPoints(
        title=path.name,
        names=names,
        texts=texts,
        pictures=pictures,
        classes=_classes(table),
        sample_id=sample_id,
        **vars(found),
    )


def _read_folder(folder: Path) -> LabelPoints:
    """Read the pictures of a folder, which have the names of their files."""
    pictures = pictures_of(folder)
    names, made = [path.name for path in pictures], vars(picture_features(pictures))
    return LabelPoints(folder.resolve().name, names=names, pictures=pictures, sample_id=np.array(names), **made)


def _texts(table: PointTable, options: PageOptions, id_name: str | None) -> list[str] | None:
    """Return a text for each point: a column, or the cells of the row but its name and label; None if there are pictures only."""
    points = table.points
    if options.text is not None:
        return points.columns[options.text].astype(str).tolist()
    if options.images is not None:
        return None
    hidden = (id_name, table.options.labels, *(table.options.drop or ()))
    cells = {name: _cells(column) for name, column in zip(points.names, points.X.T[:MOST_VALUES])}
    for name, median in points.medians.items():
        assert points.table is not None  # a .npy file has no missing cells of this kind
        if name in cells:
            for i in np.flatnonzero(np.isnan(points.table.numbers(name)[0])).tolist():
                cells[name][i] = f"missing (the median {median:g} is used)"
    others = {name: _cells(column) for name, column in points.columns.items() if name not in hidden}
    names, columns = zip(*[*(others | cells).items()][:MOST_VALUES])
    return ["\n".join(f"{name}: {cell}" for name, cell in zip(names, row)) for row in zip(*columns)]


def _cells(column: np.ndarray) -> list[str]:
    """Cells as words: whole numbers in full, others with six digits."""
    if column.dtype.kind != "f":
        return column.astype(str).tolist()
    return [f"{x:.0f}" if x == np.rint(x) and abs(x) < LARGEST_WHOLE else f"{x:g}" for x in column.tolist()]


def _classes(table: PointTable) -> list[str] | None:
    """Known labels as words, empty if a point has none; None without a column of labels."""
    name = table.options.labels
    if name is None:
        return None
    values = table.label_values()
    codes = find_labels(values, len(table.points.X), name, table.options.unlabeled)
    if codes.dtype.kind == "f":
        raise ValueError(f"labels {name!r} are not classes, and points are coloured by classes; leave --labels out")
    return np.where(codes >= 0, np.asarray(values).astype(str), "").tolist()


def _picture_names(table: PointTable, names: list[str] | None) -> list[str]:
    """Names of the pictures: a column of files, or else the ids of the points."""
    columns = table.points.columns
    named = next((column for column in ("image", "file", "filename", "path") if column in columns), None)
    if named is not None:
        return columns[named].astype(str).tolist()
    if names is None:
        raise ValueError("--images needs a column image, file, filename or path, or ids that pictures are named by")
    return names
