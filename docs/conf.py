"""The settings of the documentation site. tools/build-site runs Sphinx with them, on the pages that stage.py collects."""

import pathlib
import re

from pygments.lexers.special import TextLexer

ROOT = pathlib.Path(__file__).resolve().parents[1]

project = "Tenon"
author = "the authors of Tenon"
copyright = f"2026, {author}"
version = release = re.search(r'#define TENON_VERSION "(.*)"', (ROOT / "core/include/tenon/tenon.h").read_text("utf-8"))[1]

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
# Commands with a prompt are copied without it, and without their output.
copybutton_prompt_text, copybutton_only_copy_prompt_lines = "$ ", True
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nitpicky = True
# Signatures name types of Python, of C and of frameworks, which have no entry here.
nitpick_ignore_regex = [("py:.*", ".*"), ("c:.*", ".*")]
python_maximum_signature_line_length = c_maximum_signature_line_length = 88
toc_object_entries = False
# Typographic quotes would change code in headings and signatures.
smartquotes = False
# Pygments knows neither the grammar of a signature nor every line of sh.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"

templates_path = []
html_theme = "furo"
html_title = f"Tenon {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_favicon = html_logo = "_static/tenon.svg"
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#8a4b14", "color-brand-content": "#8a4b14"},
    "dark_css_variables": {"color-brand-primary": "#e0a66c", "color-brand-content": "#e0a66c"},
    "footer_icons": [],
}


def setup(app):
    """The language of the blocks that tools/check-docs loads as signatures."""
    app.add_lexer("signature", TextLexer)
