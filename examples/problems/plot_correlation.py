"""
============================================
Repair a correlation matrix of stock returns
============================================

The returns of 40 assets over 120 days have gaps: markets are closed on different days, and some assets are younger than others. If each
correlation is computed from the days that both assets have, the result is not a correlation matrix: it has negative eigenvalues, so that
some portfolio has a negative variance.

``nearest_correlation`` finds the nearest correlation matrix and proves that no other one is nearer.
"""

# %%
# A table with gaps
# -----------------

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bregmat import nearest_correlation

plt.style.use("bregmat.plots.bregmat")

rng = np.random.default_rng(20261120)
n, days = 40, 120
names = [f"asset {k + 1}" for k in range(n)]
market, sector = rng.normal(size=(days, 1)), rng.normal(size=(days, 4)) @ np.repeat(np.eye(4), n // 4, axis=1)
returns = pd.DataFrame(0.7 * market + 0.8 * sector + rng.normal(size=(days, n)), columns=names)
first_day = np.r_[np.zeros(n - 10, int), rng.integers(40, 100, 10)]  # the ten youngest
gaps = (rng.random((days, n)) < 0.25) | (np.arange(days)[:, None] < first_day)
observed = returns.mask(gaps).corr()

print(f"eigenvalues of the table: {np.linalg.eigvalsh(observed)[:4].round(3)} ...")

# %%
# The nearest correlation matrix
# ------------------------------
# A DataFrame comes back as a DataFrame. The correlations among the thirty assets with a full history may be trusted: they can be
# fixed if they form a correlation matrix, which the complete days decide. Portfolio optimisers need a smallest eigenvalue above zero.

plain = nearest_correlation(observed)
trusted = returns.iloc[:, : n - 10].corr()  # in this made-up case without gaps
mixed = observed.copy()
mixed.iloc[: n - 10, : n - 10] = trusted
fixed = np.zeros((n, n), dtype=bool)
fixed[: n - 10, : n - 10] = ~np.eye(n - 10, dtype=bool)
kept = nearest_correlation(mixed, fixed=fixed, min_eig=0.01)
five = nearest_correlation(observed, rank=5)
for name, result in (("nearest", plain), ("block fixed, eigenvalues >= 0.01", kept), ("rank 5", five)):
    print(f"{name}: distance {result.residual:.4f}, at least {np.sqrt(2 * result.dual_bound):.4f}, {result.status}")
assert np.linalg.eigvalsh(observed)[0] < -0.01 and plain.status == kept.status == "OPTIMAL"
assert np.linalg.eigvalsh(plain.matrix)[0] > -1e-9 and np.linalg.eigvalsh(kept.matrix)[0] > 0.01 - 1e-9
assert np.allclose(kept.matrix.to_numpy()[fixed], mixed.to_numpy()[fixed], rtol=0, atol=1e-9)
assert np.linalg.matrix_rank(five.matrix, tol=1e-9) == 5

# %%
# Eigenvalues and changed entries
# -------------------------------

# sphinx_gallery_thumbnail_panel = (1, 0)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6))
for matrix, label, marker in (
    (observed, "table with gaps", "."),
    (plain.matrix, "nearest", "+"),
    (kept.matrix, "block fixed", "x"),
):
    left.plot(np.arange(1, n + 1), np.linalg.eigvalsh(matrix), marker, label=label)
left.axhline(0, color="#999999", linewidth=1)
left.set(xlabel="number", ylim=(-1.1, 1.5), title="smallest eigenvalues")
left.legend()
for panel, result, before, title in (
    (middle, plain, observed, "change to the nearest"),
    (right, kept, mixed, "change with the old assets fixed"),
):
    image = panel.imshow(result.matrix - before, cmap="RdBu_r", vmin=-0.2, vmax=0.2)
    panel.set(title=title, xlabel="asset", ylabel="asset")
figure.colorbar(image, ax=[middle, right], shrink=0.8)
plt.show()
