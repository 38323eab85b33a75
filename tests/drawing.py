"""What the tests of pictures share: drawing into memory, and reading off what was drawn."""

import matplotlib as mpl
import matplotlib.pyplot as plt


def in_memory():
    """Draw into memory, and leave no figure open; the body of a fixture."""
    mpl.use("Agg")
    yield
    plt.close("all")


def texts(axes):
    return [t.get_text() for t in axes.texts]


def legend_texts(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()]
