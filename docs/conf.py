"""How ``make docs`` turns the pages of this folder into a site (Sphinx, with Markdown by MyST).

What is special is in ``extensions``: mathematics without scripts, the command line from its parser,
the names of the Python interface, and figures that are drawn by the build.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import ndflow.integrations.sklearn  # noqa: F401  while torch is not mocked: SciPy asks for its types
from ndflow import __version__

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "ndflow"
author = "the ndflow authors"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "extensions.command_line",
    "extensions.drawn_figures",
    "extensions.house_docstrings",
    "extensions.mathml",
    "extensions.members",
    "extensions.repository_links",
]
exclude_patterns = ["extensions", "templates"]
# reStructuredText, the first, is what autosummary generates.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
templates_path = ["templates"]

# ── Markdown ─────────────────────────────────────────────────────────────────────────────────────

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4  # the anchors of GitHub, so that links work in both places
nb_execution_mode = "off"  # notebooks are stored with their outputs; the tests execute them
nb_merge_streams = True

# ── Python ───────────────────────────────────────────────────────────────────────────────────────

default_role = "py:obj"  # `name` in a docstring: a link where there is a page, code where not
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autosummary_filename_map = {  # for file systems to which ndflow.fit and ndflow.Fit are one name
    f"ndflow.{name}": f"ndflow.{name}-class"
    for name in ("Fit", "Histogram", "Reference", "transport.Match")
}
autodoc_typehints = "none"  # signatures are easier to read; numpydoc shows the types
autodoc_member_order = "bysource"
autodoc_mock_imports = [name for name in ("monai", "torch", "torchio") if find_spec(name) is None]
numpydoc_show_class_members = False  # autodoc does
numpydoc_xref_param_type = False

# ── the site ─────────────────────────────────────────────────────────────────────────────────────

html_theme = "pydata_sphinx_theme"
html_title = f"ndflow {release}"
html_short_title = "ndflow"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_logo = "static/logo.svg"
html_favicon = "static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "ndflow", "alt_text": "ndflow, first page"},
    "github_url": "https://github.com/ndflow/ndflow",
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {page: [] for page in ("faq", "index", "tutorial")}  # with none beside them
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div.highlight-sh pre, div.highlight-python pre, div.cell_input pre"

# ── make linkcheck ───────────────────────────────────────────────────────────────────────────────

linkcheck_anchors_ignore_for_url = ["https://github.com/"]
linkcheck_ignore = [r"https://github\.com/ndflow/ndflow", r"https://ndflow\.github\.io"]
