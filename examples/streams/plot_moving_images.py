"""
==============================================
Find moving objects in a video with online PCA
==============================================

A camera films a wall in changing light, and a small object moves across it. The views of the wall are in a subspace of a few dimensions.
``OnlinePCA`` learns this subspace frame by frame, with an expected loss close to that of the best subspace for all frames. What is
outside the subspace is the object. After half of the frames the camera turns to another wall.
"""

# %%
# 600 frames of 16 x 16 pixels
# ----------------------------

import matplotlib.pyplot as plt
import numpy as np

from bregmat import OnlinePCA

plt.style.use("bregmat.plots.bregmat")
rng = np.random.default_rng(2)
SIDE, FRAMES, TURN = 16, 600, 300
across, down = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
bricks = 0.5 + 0.35 * (
    (np.arange(SIDE)[:, None] % 4 > 0) & ((np.arange(SIDE) + 4 * (np.arange(SIDE)[:, None] // 4 % 2)) % 8 > 0)
)
planks = 0.55 + 0.3 * np.sin(6 * np.pi * across + 2 * down)

frames, movers = [], []
for t in range(FRAMES):
    wall = bricks if t < TURN else planks
    lamp = 0.9 + 0.25 * np.sin(t / 40) + 0.5 * (across - 0.5) * np.sin(t / 23) + 0.5 * (down - 0.5) * np.cos(t / 31)
    place = SIDE * np.array([0.5 + 0.36 * np.sin(t / 17), 0.5 + 0.36 * np.cos(t / 11)])
    mover = np.exp(-((SIDE * across - place[0]) ** 2 + (SIDE * down - place[1]) ** 2) / 2.2)
    frames.append(wall * lamp * (1 - mover) + 1.3 * mover + rng.normal(scale=0.02, size=wall.shape))
    movers.append(mover)
frames = np.array(frames).reshape(FRAMES, -1)
frames /= np.linalg.norm(frames, axis=1).max()

# %%
# One pass
# --------
# Each frame is split by the subspace that was learned before it came.

learner = OnlinePCA(n_components=4, eta=8.0, random_state=0)
backgrounds, losses = [], []
for frame in frames:
    known = hasattr(learner, "components_") and learner.components_ @ frame @ learner.components_
    backgrounds.append(np.zeros_like(frame) if known is False else known)
    losses.append(((frame - backgrounds[-1]) ** 2).sum())
    learner.partial_fit(frame[None])
backgrounds, losses = np.array(backgrounds), np.array(losses)


def best_loss(part):
    """Squared error a frame, of the best four dimensions in hindsight."""
    return (np.linalg.svd(part, compute_uv=False)[4:] ** 2).sum() / len(part)


print(f"first wall:  {losses[100:TURN].mean():.4f} a frame, best in hindsight {best_loss(frames[:TURN]):.4f}")
print(f"second wall: {losses[-100:].mean():.4f} a frame, best in hindsight {best_loss(frames[TURN:]):.4f}")
assert losses[100:TURN].mean() < 2 * best_loss(frames[:TURN]) and losses[-100:].mean() < 2 * best_loss(frames[TURN:])

# %%
# The picture
# -----------
# Eight frames, their projections to the subspace and the rest; below, the squared error of each frame.

moments = [5, 40, 150, 290, 301, 330, 420, 590]
# sphinx_gallery_thumbnail_panel = (1, 2, 20)
figure = plt.figure(figsize=(9.6, 6.2))
upper, lower = figure.subfigures(2, 1, height_ratios=[2.1, 1])
axes = upper.subplots(3, len(moments))
rest = frames - backgrounds
top, wide = frames.max(), np.abs(rest[moments]).max() * 0.8
for column, t in zip(axes.T, moments):
    for ax, image, limits, cmap in zip(
        column, (frames[t], backgrounds[t], rest[t]), ((0, top), (0, top), (-wide, wide)), ("gray", "gray", "RdBu_r")
    ):
        ax.imshow(image.reshape(SIDE, SIDE), cmap=cmap, vmin=limits[0], vmax=limits[1])
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    column[0].set_title(f"{t}")
for ax, name in zip(axes[:, 0], ("frame", "known", "what is left")):
    ax.set_ylabel(name)
ax = lower.subplots()
ax.plot(losses, linewidth=0.9)
for start, end in ((0, TURN), (TURN, FRAMES)):
    ax.hlines(best_loss(frames[start:end]), start, end, color="#D55E00", linestyle="--", linewidth=1.2)
ax.text(4, 0.025, "dashed: best subspace of each wall in hindsight", color="#D55E00")
ax.set(yscale="log", xlabel="frame", ylabel="squared error", xlim=(0, FRAMES))
plt.show()
