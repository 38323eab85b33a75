"""
===============================================
Train support vector machines with certificates
===============================================

Sha, Saul and Lee (2002) train a hard-margin machine by updates in closed form that multiply every coefficient by a factor. There is no
learning rate and no working set, and the objective falls at every step. After one or two steps most coefficients of examples that are no
support vectors are close to zero. High accuracy takes many steps, though.

``MarginSVC`` has these updates as ``solver="multiplicative"``. Its default solver is faster, and both end with a proven bound on the
distance from the optimum.
"""

# %%
# The updates, step by step
# -------------------------
# Tumours described by 30 measurements, in units of their standard deviations, and a Gaussian kernel of width 3, as in the paper.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bregmat.estimators import KernelLearner, MarginSVC
from bregmat.quadratic.updates import positive_negative, step

plt.style.use("bregmat.plots.bregmat")

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
scale = StandardScaler().fit(X_train)
X_train, X_test = scale.transform(X_train), scale.transform(X_test)

GAMMA = 1 / (2 * 3**2)
K, K_test = rbf_kernel(X_train, gamma=GAMMA), rbf_kernel(X_test, X_train, gamma=GAMMA)
signs, signs_test = 2 * y_train - 1, 2 * y_test - 1
A = K * np.outer(signs, signs)
alpha = np.ones(len(K))
shown, iterates, train_error, test_error = [0, 1, 2, 4, 8, 16, 32, 64], [], [], []
for iteration in range(65):
    if iteration in shown:
        iterates.append(alpha)
        train_error.append(np.mean(signs * (K @ (alpha * signs)) <= 0))
        test_error.append(np.mean(signs_test * (K_test @ (alpha * signs)) <= 0))
    positive, negative = positive_negative(A, alpha)
    alpha = step(alpha, -np.ones(len(K)), positive=positive, negative=negative)

exact = MarginSVC(gamma=GAMMA, C=np.inf, fit_intercept=False, tol=1e-10, random_state=0).fit(X_train, y_train)
support = exact.result_.alpha > 0
order = np.lexsort((-iterates[-1], ~support))  # the support vectors of the exact machine first
figure, axes = plt.subplots(len(shown), 1, figsize=(6.4, 9.6), sharex=True, layout="constrained")
for ax, iteration, coefficients, *errors in zip(axes, shown, iterates, train_error, test_error):
    ax.vlines(
        np.arange(len(order)), 0, coefficients[order], color=np.where(support[order], "#0072B2", "#8A8F98"), lw=0.8
    )
    ax.set_title("iteration {}: training error {:.1%}, test error {:.1%}".format(iteration, *errors), loc="left")
    ax.set_ylabel("α", rotation=0)
axes[-1].set_xlabel("training example, support vectors first")

# %%
# The same machine, solved
# ------------------------
# That order is the exact machine's: hard margin, no intercept, by the default solver. The relative duality gap bounds what any
# other machine could gain.

updates = MarginSVC(gamma=GAMMA, C=np.inf, fit_intercept=False, solver="multiplicative", tol=1e-2).fit(X_train, y_train)
for machine in (updates, exact):
    print(
        f"{machine.solver}: {machine.n_iter_[0]:,} iterations, gap {machine.gap_:.0e}, {len(machine.support_)} support vectors, "
        f"test accuracy {machine.score(X_test, y_test):.3f}"
    )
assert exact.gap_ <= 1e-10 < updates.gap_

# %%
# The default machine
# -------------------
# C = 1 and an intercept. The parameters have the names of scikit-learn's ``SVC``, so either works in grid searches and pipelines.

search = GridSearchCV(
    make_pipeline(StandardScaler(), MarginSVC(random_state=0)),
    {"marginsvc__C": [0.1, 1, 10, 100], "marginsvc__gamma": ["scale", 0.01, 0.003]},
).fit(X, y)
best = search.best_estimator_[-1]
print(f"C = {best.C:g}, gamma = {best.gamma}: accuracy {search.best_score_:.3f} in cross-validation")
print(best.result_)

machine = MarginSVC(gamma=GAMMA, tol=1e-10, random_state=0).fit(X_train, y_train)
alpha = machine.result_.alpha
order = np.argsort(-alpha, kind="stable")
is_bound = alpha >= machine.C * (1 - 1e-9)  # within the margin, or on its wrong side
colors = np.where(is_bound, "#D55E00", "#0072B2")[order]
# sphinx_gallery_thumbnail_panel = (2, 0)
figure, ax = plt.subplots(figsize=(6.4, 3.2))
ax.vlines(np.arange(len(order)), 0, alpha[order], color=colors, lw=0.8)
ax.axhline(machine.C, color="#8A8F98", ls="--")
ax.set(xlabel="training example, largest coefficients first", ylabel="coefficient; dashed: C")
ax.set_title(f"{is_bound.sum()} examples at the bound C, {((alpha > 0) & ~is_bound).sum()} on the margin")

# %%
# A learned kernel
# ----------------
# ``kernel=`` takes any function of two sets of points; a learned one is ``learner.kernel``. For cross-validation, where the learner
# must not see the folds it is tested on, the same machine is a pipeline: features of the learned kernel, and a linear machine on
# them.

learner = KernelLearner("rbf", gamma=GAMMA, strategy="random", slack_weight=0.1, random_state=0)
learned = MarginSVC(kernel=learner.fit(X_train, y_train).kernel, random_state=0).fit(X_train, y_train)
print(f"learned kernel: {len(learned.support_)} support vectors, test accuracy {learned.score(X_test, y_test):.3f}")

models = {
    "rbf kernel": make_pipeline(StandardScaler(), MarginSVC(gamma=GAMMA, random_state=0)),
    "learned kernel": make_pipeline(StandardScaler(), learner, MarginSVC(kernel="linear", random_state=0)),
}
for name, model in models.items():
    scores = cross_val_score(model, X, y)
    print(f"{name}: accuracy {scores.mean():.3f} +- {scores.std():.3f} in cross-validation")
plt.show()
