"""The configuration of Sphinx; ``make docs`` builds the site.

The source folder is the root of the repository, so a relative link works there and on the site.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # site_pages

project = "Asterism"
author = "the Asterism authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_pages"]
root_doc = "docs/index"
include_patterns = ["docs/**", "examples/*/README.md", "benchmarks/*.md", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
suppress_warnings = ["misc.highlighting_failure"]  # a block of Python may have "…"
myst_heading_anchors = 4
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
html_theme = "furo"
html_title = "Asterism"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
