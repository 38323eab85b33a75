"""Thumbnails of the gallery that show one panel of a figure, so that they can be read.

An example names it by ``# sphinx_gallery_thumbnail_panel = (figure, first, last)``: the number of the figure from 1 on, and the axes of
the figure from 0 on whose common rectangle is shown; last may be left out.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.transforms import Bbox
from sphinx_gallery.scrapers import matplotlib_scraper

DPI = 200  # a panel of three inches is 600 pixels wide


def scraper(block, block_vars, gallery_conf, **kwargs):
    """Save the figures of a block as sphinx-gallery does, and the panel of the thumbnail if it is among them."""
    conf, images = block_vars["file_conf"], block_vars["image_path_iterator"]
    number, *panels = conf.get("thumbnail_panel", (0,))
    figures, k = plt.get_fignums(), number - 1 - len(images)
    if panels and 0 <= k < len(figures):
        figure = plt.figure(figures[k])
        figure.canvas.draw()
        boxes = [figure.axes[panel].get_tightbbox() for panel in panels]
        inches = Bbox.union(boxes).transformed(figure.dpi_scale_trans.inverted()).padded(0.05)
        path = (
            Path(images.image_path.format(number)).parent / "thumb" / f"{Path(block_vars['src_file']).stem}_panel.png"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, bbox_inches=inches, dpi=DPI)
        conf["thumbnail_path"] = str(path)
    return matplotlib_scraper(block, block_vars, gallery_conf, **kwargs)
