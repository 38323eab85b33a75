"""
===================================================
Learn a metric from Parquet files on a Dask cluster
===================================================

The constraints are in a folder of Parquet files, the points in a memory-mapped file, and the work is done by a Dask cluster, here four
processes of this machine. Constraints and their multipliers stay with the workers, and a step sends matrices of the order of the number
of features. The result has the same bits for any number of workers, and without a cluster.
"""

# %%
# Files
# -----
# Bounds on squared distances between 2,000 points of five classes, in two files; a row group is a shard.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet

from bregmat import nearest_metric
from bregmat.io import open_constraints, open_points

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(0)
n, d, c = 2_000, 20, 40_000
kinds = rng.integers(5, size=n)
X = rng.normal(size=(5, d))[kinds] + rng.normal(size=(n, d)) * np.linspace(0.3, 2.0, d)
i = rng.integers(n, size=c)
j = (i + 1 + rng.integers(n - 1, size=c)) % n
alike = kinds[i] == kinds[j]
near, far = np.percentile(((X[i] - X[j]) ** 2).sum(axis=1), [5, 95])

scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
np.save(folder / "points.npy", X)
table = pyarrow.table(
    {"i": i, "j": j, "bound": np.where(alike, near, far), "sense": np.where(alike, "<=", ">=").tolist()}
)
(folder / "pairs").mkdir()
for k in range(2):
    part = table.slice(k * c // 2, c // 2)
    pyarrow.parquet.write_table(part, folder / "pairs" / f"{k}.parquet", row_group_size=10_000)

points, constraints = open_points(folder / "points.npy"), open_constraints(folder / "pairs")
print(f"{constraints.n_constraints:,} constraints, {points.shape[0]:,} points")

# %%
# On the cluster
# --------------
# ``callback`` is called at every step, which is all that a progress bar needs. The dashboard shows shards being loaded, and the tasks of
# every step.


def progress(record):
    """A bar of the steps."""
    print(f"\r[{'#' * record.iteration:<20}] step {record.iteration}", end="", flush=True)


def learn_on_cluster():
    """On four worker processes of this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        print("dashboard:", cluster.dashboard_link)
        result = nearest_metric(points, constraints, slack_weight=1.0, executor=client, callback=progress)
        print()
        return result, np.asarray(result.dual)


if __name__ == "__main__":  # worker processes import this file
    result, dual = learn_on_cluster()
    print(result)
    alone = nearest_metric(points, constraints, slack_weight=1.0)
    print("the same bits without a cluster:", np.array_equal(alone.metric(), result.metric()))
    assert np.array_equal(alone.metric(), result.metric()) and result.status == "OPTIMAL"

    # %%
    # What was learned
    # ----------------
    # Features with much noise lose their weight.

    weight = np.diag(result.metric())
    assert weight[: d // 2].mean() > 1.5 * weight[d // 2 :].mean()

    # sphinx_gallery_thumbnail_panel = (1, 0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.bar(np.arange(d), np.diag(result.metric()), color="#0072B2")
    left.set(xlabel="feature, by growing noise", ylabel="weight in the metric")
    right.hist(dual, bins=60, color="#0072B2")
    right.set(xlabel="dual weight of a constraint", ylabel="constraints", yscale="log")
    plt.show()
