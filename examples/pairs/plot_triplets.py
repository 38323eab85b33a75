"""
==========================================
Learn a metric of colours from comparisons
==========================================

People cannot say how far two colours are apart, but they can say which of two colours is more like a third one. A metric on the amounts
of red, green and blue is learned from such answers. It finds that green has the most weight, as in human vision.

The answers are simulated here. They follow the formula for lightness and colour of the CIE (L*a*b*), and one answer in ten is wrong.
"""

# %%
# A judge
# -------

import matplotlib.pyplot as plt
import numpy as np

from bregmat import Constraints, MetricLearner

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(0)


def lab(rgb):
    """CIE L*a*b* of sRGB in 0 ... 1, white D65."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    t = linear @ to_xyz.T / [0.9505, 1.0, 1.089]
    x, y, z = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def answers(rgb, n, errors):
    """Of n triplets: the colour asked about, the one that the judge calls nearer, and the other."""
    i, j, l = np.array([rng.choice(len(rgb), 3, replace=False) for _ in range(n)]).T
    seen = lab(rgb)
    first = ((seen[i] - seen[j]) ** 2).sum(1) < ((seen[i] - seen[l]) ** 2).sum(1)
    first ^= rng.random(n) < errors
    return i, np.where(first, j, l), np.where(first, l, j)


def share_right(Z, triplets):
    i, j, l = triplets
    return (((Z[i] - Z[j]) ** 2).sum(1) < ((Z[i] - Z[l]) ** 2).sum(1)).mean()


# %%
# Learning from answers
# ---------------------
# A triplet is a comparison of two squared distances that share a colour. Rows are soft, since people err.

colors, new = rng.random((200, 3)), rng.random((300, 3))
asked, test = answers(colors, 2000, errors=0.1), answers(new, 4000, errors=0.0)
counts, shares = [0, 20, 50, 100, 200, 500, 1000, 2000], []
for n in counts:
    Z = new
    if n:
        i, j, l = (part[:n] for part in asked)
        constraints = Constraints.comparison(i, j, i, l, margin=0.1)
        learner = MetricLearner(loss="squared_hinge", slack_weight=1.0).fit(colors, constraints=constraints)
        Z = learner.transform(new)
    shares.append(share_right(Z, test))
    print(f"{n:5d} answers: {shares[-1]:.3f} of the judge's answers about new colours foretold")
W = learner.get_mahalanobis_matrix()
W *= 3 / np.trace(W)
print(W.round(2))
assert shares[-1] > shares[0] + 0.05 and W.diagonal().argmax() == 1  # green counts most

# %%
# The picture
# -----------
# Left: new colours where the learned map puts them (its two leading components). Middle: the learned matrix. Right: how many answers it
# took.

Z = learner.transform(new)
# sphinx_gallery_thumbnail_panel = (1, 0)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.2), width_ratios=[1.25, 0.85, 1.2])
left.scatter(Z[:, 0], Z[:, 1], c=new, s=42, linewidths=0)
left.set(xticks=[], yticks=[], title="new colours in the learned metric", aspect="equal")
left.spines[:].set_visible(False)
top = np.abs(W).max()
middle.imshow(W, cmap="RdBu_r", vmin=-top, vmax=top)
for a in range(3):
    for b in range(3):
        middle.text(
            b, a, f"{W[a, b]:.2f}", ha="center", va="center", color="white" if W[a, b] > 0.6 * top else "#1B1E23"
        )
middle.set(xticks=range(3), yticks=range(3), title="the learned matrix")
middle.set_xticklabels(["red", "green", "blue"])
middle.set_yticklabels(["red", "green", "blue"])
middle.spines[:].set_visible(False)
right.axhline(shares[0], color="#8A8F98", linestyle="--", linewidth=1)
right.text(2000, shares[0] + 0.003, "plain red, green, blue", ha="right", va="bottom", color="#55595F")
right.plot(counts[1:], shares[1:], "-o", markersize=4)
right.set(xscale="log", xlabel="answers", title="share of answers on new colours foretold")
right.set_xticks([20, 100, 500, 2000], ["20", "100", "500", "2,000"])
plt.show()
