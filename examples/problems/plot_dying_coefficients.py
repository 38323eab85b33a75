"""
==================================================
Multiplicative updates of a support vector machine
==================================================

The multiplicative margin maximisation (M3) of Sha, Saul and Lee has no working set and no learning rate: each update multiplies every
coefficient by a factor. The coefficients of support vectors converge. All others decrease to zero, and the farther an example is from the
margin, the faster. Theorem 2 of the paper bounds the rate.
"""

# %%
# Updates, by hand
# ----------------
# With the matrix split by the signs of its entries an update is one line. All 455 training examples start at 1.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from bregmat import MarginSVC

plt.style.use("bregmat.plots.bregmat")
X, y = load_breast_cancer(return_X_y=True)
X, _, y, _ = train_test_split(X, 2 * y - 1, test_size=0.2, random_state=0, stratify=y)
X = StandardScaler().fit_transform(X)
UPDATES = 2000


def updates(K):
    """Coefficients after 0, 1, 2, ... updates, shape (UPDATES + 1, n)."""
    A = K * np.outer(y, y)
    plus, minus = np.maximum(A, 0), np.maximum(-A, 0)
    alpha = np.ones((UPDATES + 1, len(y)))
    for step in range(UPDATES):
        v = alpha[step]
        alpha[step + 1] = v * (1 + np.sqrt(1 + 4 * (plus @ v) * (minus @ v))) / (2 * (plus @ v))
    return alpha


# %%
# Three kernels
# -------------
# Which examples are support vectors is taken from ``MarginSVC`` on the same hard-margin machine without an intercept, which proves it.

gammas = [0.003, 0.02, 0.1]
found = []
for gamma in gammas:
    K = rbf_kernel(X, gamma=gamma)
    machine = MarginSVC(C=float("inf"), kernel="precomputed", fit_intercept=False).fit(K, y)
    alpha = updates(K)
    support = machine.result_.alpha > 0
    found.append((alpha, support))
    late = alpha[-1]
    print(
        f"gamma {gamma:g}: {support.sum()} support vectors; after {UPDATES} updates the others have "
        f"{late[~support].sum() / late.sum():.1%} of the sum, {np.mean(late[~support] < 1e-6):.0%} of them below 1e-6"
    )
    assert np.median(late[~support]) < np.median(late[support])

# %%
# The picture
# -----------
# Above every coefficient as a line, below their share of the sum.

steps = np.unique(np.geomspace(1, UPDATES, 120).astype(int))
# sphinx_gallery_thumbnail_panel = (1, 0)
figure, axes = plt.subplots(2, 3, figsize=(10, 4.8), sharex=True, sharey="row", height_ratios=[2, 1])
for (upper, lower), gamma, (alpha, support) in zip(axes.T, gammas, found):
    upper.plot(steps, alpha[steps][:, ~support], color="#8A8F98", linewidth=0.5, alpha=0.35)
    upper.plot(steps, alpha[steps][:, support], color="#0072B2", linewidth=0.6, alpha=0.6)
    upper.set(xscale="log", yscale="log", ylim=(1e-8, 1e3), title=f"gamma {gamma:g}: {support.sum()} support vectors")
    share = alpha[steps][:, support].sum(1) / alpha[steps].sum(1)
    lower.fill_between(steps, share, color="#0072B2", alpha=0.85, linewidth=0)
    lower.fill_between(steps, share, 1, color="#C9CCD1", linewidth=0)
    lower.set(xlabel="update", ylim=(0, 1))
axes[0, 0].set_ylabel("coefficient")
axes[1, 0].set_ylabel("share of the sum")
axes[0, 0].plot([], [], color="#0072B2", label="support vectors")
axes[0, 0].plot([], [], color="#8A8F98", label="all others")
axes[0, 0].legend(loc="lower left")
plt.show()
