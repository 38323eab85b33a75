"""The work of `bregmat transform` and `bregmat inspect` with a model file."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bregmat.base.checks import as_choice
from bregmat.base.html import listed, number
from bregmat.engine.result import Result
from bregmat.io import Points, load, read_manifest, read_points, write_points
from bregmat.io.paths import known_path
from bregmat.io.points import KINDS, MISSING
from bregmat.io.tables import column_names
from bregmat.verification import verify
from bregmat_app.cli import show
from bregmat_app.cli.learning import is_any_hard, settings_row
from bregmat_app.cli.points import advice_on_cells, encoded


def transform_points(
    model: Path, points: Path, out: Path, *, missing: str = "error", encoding: str | None = None
) -> tuple[int, int]:
    """Write the points of a file mapped by a model; return how many there are, and their dimension.

    Missing cells are replaced by the medians of the points that the model was learned from.
    """
    learner, info = load(model), read_manifest(model)["info"]
    if not hasattr(learner, "n_features_in_"):
        raise ValueError(f"{model}: a {type(learner).__name__}, which maps no tables of points; use it in Python")
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
    after = learner.transform(np.hstack([data.X, encoded(data, categories)[0]]))
    names = [f"c{k}" for k in range(after.shape[1])]
    write_points(out, after, names=names, columns=data.columns, has_decimal_commas=data.has_decimal_commas)
    return after.shape


def _points_for(path: Path, names: list[str], d: int, given: dict[str, Any]) -> Points:
    """Read the columns that a model was learned from: by name, or all d columns of numbers if the file or the model has no names."""
    known = column_names(known_path(path, "read points from", KINDS), given["encoding"])
    if not d or (names and (set(names) <= set(known) or not (_are_made_up(names) or _are_made_up(known)))):
        return read_points(path, features=names, **given)
    points = read_points(path, **given)
    if len(points.names) != d:
        raise ValueError(f"{path}: {len(points.names)} columns of numbers, but the model was learned on {d}")
    return points


def _are_made_up(names: Any) -> bool:
    """Whether names are those of a file without a header."""
    return list(names) == [f"x{k}" for k in range(len(names))]


def tables_about(model: Path) -> list[Table | str]:
    """Describe a model: what it was learned from, its settings, its certificates or its loss; tables and empty lines."""
    manifest, learner = read_manifest(model), load(model)
    info = manifest["info"]
    is_online = hasattr(type(learner), "cumulative_loss_")  # an online learner has a loss, and no certificate
    rows: list[tuple[str, Any]] = [("class", manifest["class"])]
    rows.append(("written by", f"bregmat {manifest['bregmat']}, format {manifest['format_version']}"))
    rows.append(("learned from", info.get("source", "unknown")))
    if hasattr(learner, "n_features_in_"):
        rows.append(("features", listed(info.get("feature_names") or [f"{learner.n_features_in_} without names"])))
    asked = learner.get_params(deep=not is_online) if hasattr(learner, "get_params") else {}
    rows += [(name, value) for name, value in asked.items() if value is not None and name != "callback"]
    if hasattr(learner, "strategy_"):
        rows.append(settings_row(learner, has_labels=info.get("has_labels", True)))
    if is_online:
        rows.append(("total loss", f"{learner.cumulative_loss_:.10g}"))
        return [show.name_value_table(rows, str(model))]
    found: list[Table | str] = [show.name_value_table(rows, str(model)), ""]
    results = learner if isinstance(learner, Result) else getattr(learner, "result_", [])
    has_hard = is_any_hard(learner, learner.constraints_) if hasattr(learner, "constraints_") else None
    for result in results if isinstance(results, list) else [results]:
        found.append(show.name_value_table([*result.certificate_rows(has_hard), *verify(result).rows()]))
    if hasattr(learner, "components_"):
        strengths = np.linalg.svd(learner.components_, compute_uv=False) ** 2
        largest = ", ".join(map(number, strengths[:8])) + (", ..." if len(strengths) > 8 else "")
        found.append(show.name_value_table([("eigenvalues", largest)]))
    return found
