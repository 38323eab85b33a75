"""Small problems for rows that are spread over shards, in memory and in files; and processes that a test starts or kills."""

from pathlib import Path

import numpy as np

from bregmat import Constraints

KINDS = ("logdet", "vonneumann")


def soft_problem(n=300, d=8, c=3000):
    """Points, and bounds on distances that no metric meets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 2.0, d)
    i = rng.integers(n, size=c)
    j = (i + 1 + rng.integers(n - 1, size=c)) % n
    y = rng.integers(3, size=n)
    same = y[i] == y[j]
    return X, Constraints.sq_distance(i, j, np.where(same, 4.0, 20.0), np.where(same, "<=", ">="))


def hard_problem(n=60, d=5, c=900):
    """Points, and bounds that one metric meets."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    i = rng.integers(n, size=c)
    j = (i + 1 + rng.integers(n - 1, size=c)) % n
    B = np.eye(d) + 0.2 * rng.normal(size=(d, d))
    q = (((X[i] - X[j]) @ B) ** 2).sum(axis=1)
    up = rng.random(c) < 0.5
    return X, Constraints.sq_distance(i, j, np.where(up, 1.05 * q, 0.95 * q), np.where(up, "<=", ">="))


def columns_of(constraints):
    """Columns of distances as files have them; the sense as its code."""
    i, j = constraints.index.T
    return {"i": i, "j": j, "bound": constraints.bound, "sense": constraints.sense}


def write_parquet(folder, constraints, *, rows=500, files=2, **changes):
    """A folder of Parquet files; ``changes`` are cells (column, row) -> value by column."""
    import pyarrow
    import pyarrow.parquet

    Path(folder).mkdir(exist_ok=True)
    columns = {name: np.array(column) for name, column in columns_of(constraints).items()}
    columns["sense"] = np.array([">=", "==", "<="])[columns["sense"] + 1]
    columns["relation"] = np.full(constraints.n_constraints, "sq_distance", dtype=object)
    for name, (row, value) in changes.items():
        columns[name][row] = value
    table = pyarrow.table({name: column.tolist() for name, column in columns.items()})
    each = -(-table.num_rows // files)
    for k in range(files):
        pyarrow.parquet.write_table(table.slice(k * each, each), Path(folder) / f"{k}.parquet", row_group_size=rows)
    return Path(folder)


def write_points(path, X):
    """Points as a .npy file."""
    np.save(path, X)
    return path


def labelled_points(n=400, d=5):
    """Points of three classes named a, b and c, the later features the noisier."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=n)
    X = 1.5 * rng.normal(size=(3, d))[kinds] + rng.normal(size=(n, d)) * np.linspace(0.5, 3.0, d)
    return X, np.array(["a", "b", "c"])[kinds]
