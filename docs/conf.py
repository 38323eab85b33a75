"""The documentation site: `make docs` builds it from this folder, the examples and the docstrings, without network."""

import os
import re
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the examples' figures are small
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import bregmat

project = "bregmat"
author = "The bregmat developers"
copyright = "The bregmat developers"
version = release = bregmat.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
]
exclude_patterns = ["_build", "_ext", "_templates", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.json"]
templates_path = ["_templates"]
default_role = None
suppress_warnings = ["config.cache"]  # the gallery's reset function cannot be pickled

# -- Markdown ------------------------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# -- docstrings ----------------------------------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"  # types are in the numpydoc sections
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # members follow in full
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

# -- gallery -------------------------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1,
    "doc_module": ("bregmat",),
    "reference_url": {"bregmat": None},
    "backreferences_dir": "gallery/uses",
    "image_scrapers": ("panel.scraper",),
    "inspect_global_variables": False,
    "thumbnail_size": (480, 300),
    "subsection_order": [f"../examples/{name}" for name in ("metrics", "kernels", "pairs", "streams", "problems")],
    "within_subsection_order": "FileNameSortKey",
}

# -- pages ---------------------------------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "bregmat"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "bregmat"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars = {"index": [], "tutorial": [], "theory": []}


def _skip_foreign(app, what, name, member, skip, options):
    """What scikit-learn's base classes add (metadata routing, set_output) is documented there."""
    home = getattr(member, "__module__", None) or getattr(getattr(member, "fget", None), "__module__", None) or ""
    return True if home.startswith(("sklearn", "enum", "abc")) else None


def _formulas_as_written(app, what, name, member, options, lines):
    """An indented block before the first section of a docstring is a formula in plain text: shown as it stands."""
    head = next((k for k, line in enumerate(lines) if line and set(line) == {"-"}), len(lines))
    for k in range(head - 1, 0, -1):
        if lines[k].startswith("    ") and not lines[k - 1].strip():
            before = next((line for line in reversed(lines[:k]) if line.strip()), "")
            if not before.startswith((" ", "-", "*")) and not before.endswith("::"):
                lines[k:k] = ["::", ""]


def _examples_in_the_gallery(app, docname, source):
    """Pages link to the files of examples, which are in a clone; on the site these links lead to their pages in the gallery."""
    source[0] = re.sub(r"\.\./examples/(\w+/plot_\w+)\.py\)", r"gallery/\1.rst)", source[0])
    source[0] = source[0].replace("../examples)", "gallery/index.rst)")


def setup(app):
    app.connect("source-read", _examples_in_the_gallery)
    app.connect("autodoc-process-docstring", _formulas_as_written, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", _skip_foreign)
