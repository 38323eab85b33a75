"""The work of `bregmat transform` and `bregmat inspect` with a model file."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bregmat.base.checks import as_choice
from bregmat.base.html import listed
from bregmat.engine.result import Result
from bregmat.io import Points, load, read_manifest, read_points, write_points
from bregmat.io.points import KINDS, MISSING
from bregmat.io.sources import source_of
from bregmat.io.tables import column_names
from bregmat.online import MatrixExponentiatedGradient
from bregmat.verification import verify
from bregmat_app.cli import show
from bregmat_app.cli.learning import is_any_hard
from bregmat_app.cli.points import advice_on_cells, encoded
from bregmat_app.cli.stream import bound_rows


def transform_points(
    model: Path, points: Path | None, out: Path, *, missing: str = "error", encoding: str | None = None
) -> tuple[int, int]:
    """Write the points of a file mapped by a model; return how many there are, and their dimension.

    Without points, an online model writes all of its own. Missing cells are replaced by the medians of the points that the model
    was learned from.
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
        categories = info.get("categories", {})
        given = {"missing": missing, "medians": info.get("medians"), "encoding": encoding, "exclude": [*categories]}
        n_numbers = learner.n_features_in_ - sum(map(len, categories.values()))
        as_choice("--missing", missing, MISSING)
        with advice_on_cells():
            data = _points_for(points, (info.get("feature_names") or [])[:n_numbers], n_numbers, given)
        if data.n_missing:
            what = "rows left out" if data.rows is not None else "filled with medians"
            show.warn(f"missing cells in {listed(data.n_missing)}: {what}")
        X = np.hstack([data.X, encoded(data, categories)[0]]) if categories else data.X
        after, columns = learner.transform(X), data.columns
    write_points(out, after, names=[f"c{k}" for k in range(after.shape[1])], columns=columns)
    return after.shape


def _points_for(path: Path, names: list[str], d: int, given: dict[str, Any]) -> Points:
    """Read the columns that a model was learned from: by name if the file has them, else all d columns of numbers."""
    source = source_of(path, "read points from", KINDS)
    if d == 0 or (names and set(names) <= set(column_names(source, given["encoding"]))):
        return read_points(path, features=names, **given)
    points = read_points(path, **given)
    if len(points.names) == d and (not names or _are_made_up(names) or _are_made_up(points.names)):
        return points
    missing = [name for name in names if name not in points.names]
    if not missing or _are_made_up(names):
        raise ValueError(f"{source.path}: {len(points.names)} columns of numbers, but the model was learned on {d}")
    raise ValueError(f"{source.path}: no column {listed(missing)}, which the model was learned on")


def _are_made_up(names: Any) -> bool:
    """Whether names are those of a file without a header."""
    return list(names) == [f"x{k}" for k in range(len(names))]


def _coordinates(learner: MatrixExponentiatedGradient, path: Path | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the coordinates of all points of an online model, or of those whose numbers or vectors a file holds."""
    data = None if path is None else read_points(path)
    chosen: Any = None if data is None else data.X
    columns = {} if data is None else data.columns
    has_pairs = learner.settings.instances == "pairs"
    if has_pairs and chosen is not None:
        chosen, dim = np.asarray(chosen), learner.dim_
        if chosen.shape[1] != 1:
            raise ValueError(f"{path}: {chosen.shape[1]} columns of numbers; the model needs one, of point numbers")
        chosen = chosen[:, 0]
        bad = np.flatnonzero((chosen != np.rint(chosen)) | (chosen < 0) | (chosen >= dim))
        if len(bad):
            raise ValueError(
                f"{path}: {chosen[bad[0]]:g} in row {bad[0]} is no point number; they go from 0 to {dim - 1}"
            )
        chosen = chosen.astype(np.int64)
    after = learner.transform(chosen)
    if np.iscomplexobj(after):
        raise ValueError("the coordinates are complex; use transform() in Python")
    if has_pairs:
        columns = {**columns, "point": np.arange(learner.dim_) if chosen is None else chosen}
    return after, columns


def tables_about(model: Path) -> list[Table | str]:
    """Describe a model: what it was learned from, its settings, its certificates or its loss; tables and empty lines."""
    manifest, learner = read_manifest(model), load(model)
    info = manifest["info"]
    is_online = hasattr(type(learner), "cumulative_loss_")  # an online learner has a loss, and no certificate
    rows: list[tuple[str, Any]] = [("class", manifest["class"])]
    rows.append(("written by", f"bregmat {manifest['bregmat']}, format {manifest['format_version']}"))
    rows.append(("learned from", info.get("source", "unknown")))
    if "examples" in info:
        rows.append(("examples of the stream", info["examples"]))
    elif hasattr(learner, "n_features_in_"):
        rows.append(("features", listed(info.get("feature_names") or [f"{learner.n_features_in_} without names"])))
    asked = learner.get_params(deep=not is_online) if hasattr(learner, "get_params") else {}
    rows += [(name, value) for name, value in asked.items() if value is not None and name != "callback"]
    if hasattr(learner, "strategy_"):
        chosen = {name: getattr(learner, f"{name}_", None) for name in ("prior", "strategy", "slack_weight", "metric")}
        words = [f"{name} {value}" for name, value in chosen.items() if value is not None]
        rows.append(("in use", ", ".join(words) if learner.strategy_ else "the prior: nothing was gained by learning"))
    if is_online:
        rows.append(("total loss", f"{learner.cumulative_loss_:.10g}"))
        if isinstance(learner, MatrixExponentiatedGradient) and learner.n_seen_:
            rows += bound_rows(learner, learner.loss_bound())
            rows.append(show.eigenvalues(np.linalg.eigvalsh(learner.matrix())[::-1]))
        return [show.name_value_table(rows, str(model))]
    found: list[Table | str] = [show.name_value_table(rows, str(model)), ""]
    results = learner if isinstance(learner, Result) else getattr(learner, "result_", [])
    has_hard = is_any_hard(learner, learner.constraints_) if hasattr(learner, "constraints_") else None
    for result in results if isinstance(results, list) else [results]:
        found.append(show.certificate_table(result, has_hard=has_hard, more=verify(result).rows()))
    if hasattr(learner, "components_"):
        strengths = np.linalg.svd(learner.components_, compute_uv=False) ** 2
        found.append(show.name_value_table([show.eigenvalues(strengths)]))
    return found
