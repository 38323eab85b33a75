"""The work of `bregmat transform` and `bregmat inspect` with a model file."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bregmat.base.html import listed
from bregmat.io import Points, load, read_manifest, read_points, write_points
from bregmat.io.points import points_source
from bregmat.io.sources import Source
from bregmat.io.tables import column_names
from bregmat.online import MatrixExponentiatedGradient
from bregmat.run.result import Result
from bregmat.verification.saved import verify_saved
from bregmat_app.cli import show
from bregmat_app.cli.categorical import Categories
from bregmat_app.cli.learning import is_any_hard
from bregmat_app.cli.stream import bound_rows

__all__ = ["tables_about", "transform_points"]


def transform_points(
    model: Path, points: Path | None, out: Path, *, missing: str = "error", encoding: str | None = None
) -> tuple[int, int]:
    """Write the points of a file mapped by a model; return how many there are, and their dimension.

    Parameters
    ----------
    model, points, out : path
        Without points, an online model writes all of its own.
    missing, encoding : str
        As in :func:`bregmat.io.read_points`; the medians are those of the points that the model was learned from.
    """
    learner = load(model)
    if isinstance(learner, MatrixExponentiatedGradient):
        after, columns = _coordinates(learner, points)
    elif points is None:
        raise ValueError(f"{model}: give POINTS to map with this {type(learner).__name__}")
    elif not hasattr(learner, "n_features_in_"):
        raise ValueError(f"{model}: a {type(learner).__name__}, which maps no points; it is for use in Python")
    else:
        info = read_manifest(model)["info"]
        if missing == "median" and "medians" not in info:
            raise ValueError(
                f"{model}: no medians to fill missing cells with; `bregmat learn --missing median` keeps those it learned with"
            )
        given = {"missing": missing, "medians": info.get("medians"), "encoding": encoding}
        categories = Categories.from_info(info)
        n_numbers = learner.n_features_in_ - categories.n_features
        names = (info.get("feature_names") or [])[:n_numbers]
        given["exclude"] = list(categories.of_column)
        data = _points_for(points_source(points), names, n_numbers, given)
        if data.n_missing:
            what = "rows left out" if data.rows is not None else "filled with medians"
            show.warn(f"missing cells in {listed(data.n_missing)}: {what}")
        X = np.hstack([data.X, categories.encode(data)]) if categories.n_features else data.X
        after, columns = learner.transform(X), data.columns
    write_points(out, after, names=[f"c{k}" for k in range(after.shape[1])], columns=columns)
    return after.shape


def _points_for(source: Source, names: list[str], d: int, given: dict[str, Any]) -> Points:
    """Read the columns that a model was learned from: by name if the file has them, else all d columns of numbers."""
    path = source.path
    if names and set(names) <= set(column_names(source, given["encoding"])):
        return read_points(source, features=names, **given)
    points = read_points(source, **given)
    if len(points.names) == d and (not names or _are_made_up(names) or _are_made_up(points.names)):
        return points
    missing = [name for name in names if name not in points.names]
    if not missing or _are_made_up(names):
        raise ValueError(f"{path}: {len(points.names)} columns of numbers, but the model was learned on {d}")
    raise ValueError(f"{path}: no column {listed(missing)}, which the model was learned on")


def _are_made_up(names: Any) -> bool:
    """Whether names are those of a file without a header."""
    return list(names) == [f"x{k}" for k in range(len(names))]


def _coordinates(learner: MatrixExponentiatedGradient, points: Path | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the coordinates of all points of an online model, or of those whose numbers or vectors a file holds."""
    columns: dict[str, Any] = {}
    chosen: Any = None
    has_pairs = learner.settings.instances == "pairs"
    if points is not None:
        data = read_points(points)
        chosen, columns = data.X, data.columns
        if has_pairs:
            chosen = _point_numbers(points, chosen, learner.dim_)
    after = learner.transform(chosen)
    if np.iscomplexobj(after):
        raise ValueError("the coordinates are complex; use transform() in Python")
    if has_pairs:
        columns = {**columns, "point": np.arange(learner.dim_) if chosen is None else chosen}
    return after, columns


def _point_numbers(path: Path, X: np.ndarray, dim: int) -> np.ndarray:
    """Check that X has one column of whole numbers below `dim` and return it."""
    if X.shape[1] != 1:
        raise ValueError(f"{path}: {X.shape[1]} columns of numbers; the model needs one, of point numbers")
    numbers = np.asarray(X[:, 0])
    bad = np.flatnonzero(~((numbers == np.rint(numbers)) & (numbers >= 0) & (numbers < dim)))
    if len(bad):
        raise ValueError(f"{path}: {numbers[bad[0]]:g} in row {bad[0]} is no point number; they go from 0 to {dim - 1}")
    return numbers.astype(np.int64)


def tables_about(model: Path) -> list[Table | str]:
    """Describe a model: what it was learned from, its settings, its certificates or its loss; tables and empty lines."""
    manifest, learner = read_manifest(model), load(model)
    rows: list[tuple[str, Any]] = [("class", manifest["class"])]
    if hasattr(type(learner), "cumulative_loss_"):  # an online learner has a loss, and no certificate
        return [show.name_value_table([*rows, *_rows_of_stream(learner, manifest)], str(model))]
    info = manifest["info"]
    rows.append(("written by", f"bregmat {manifest['bregmat']}, format {manifest['format_version']}"))
    rows.append(("learned from", info.get("source", "unknown")))
    if hasattr(learner, "n_features_in_"):
        names = info.get("feature_names") or [f"{learner.n_features_in_} without names"]
        rows.append(("features", listed(names)))
    asked = learner.get_params() if hasattr(learner, "get_params") else {}
    rows += [(name, value) for name, value in asked.items() if value is not None and name != "callback"]
    for name, array in manifest["arrays"].items():
        rows.append((f"array {name}", f"{tuple(array['shape'])} {np.dtype(array['dtype'])}"))
    found: list[Table | str] = [show.name_value_table(rows, str(model)), ""]
    results = learner if isinstance(learner, Result) else getattr(learner, "result_", [])
    has_hard = is_any_hard(learner, learner.constraints_) if hasattr(learner, "constraints_") else None
    for result, again in zip(results if isinstance(results, list) else [results], verify_saved(learner)):
        found += [show.certificate_table(result, has_hard=has_hard), show.name_value_table(again.rows())]
    if hasattr(learner, "components_"):
        strengths = np.linalg.svd(learner.components_, compute_uv=False) ** 2
        found.append(show.name_value_table([show.eigenvalues(strengths)]))
    return found


def _rows_of_stream(learner: Any, manifest: dict[str, Any]) -> list[tuple[str, Any]]:
    """Describe an online learner."""
    info = manifest["info"]
    position = info.get("examples")
    rows: list[tuple[str, Any]] = [("learned from", info.get("source", "unknown"))]
    rows += [("examples of the stream", position)] if position is not None else []
    given = learner.get_params(deep=False)
    rows += [(name, _word(value)) for name, value in given.items() if value is not None]
    rows.append(("total loss", f"{learner.cumulative_loss_:.10g}"))
    if isinstance(learner, MatrixExponentiatedGradient) and learner.n_seen_:
        rows += bound_rows(learner, learner.loss_bound())
        rows.append(show.eigenvalues(np.linalg.eigvalsh(learner.matrix())[::-1]))
    return rows


def _word(value: Any) -> Any:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else value
