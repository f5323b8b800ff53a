"""Mathematics as MathML, which browsers show by themselves.

Sphinx would have readers load MathJax from a server. Docutils has a converter from TeX, so the
pages need no script and no network. What it does not know is a warning, and so an error.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)

_ARGUMENTS = {"frac": 2, "dfrac": 2, "tfrac": 2, "binom": 2}
_COMMAND = re.compile(r"\\([dt]?frac|binom|bar|dot|hat|sqrt|tilde|vec)(?![a-z])")
_TOKEN = re.compile(r"\s*(\\[A-Za-z]+|[^\s{}\\\[\]])")
_GROUP = re.compile(r"\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the way in which mathematics is shown."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config["html_math_renderer"] = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, *, as_block: bool) -> str:
    tex = node.astext().strip()
    try:
        return str(latex2mathml.tex2mathml(with_braces(tex), as_block=as_block))
    except MathError as error:
        _log.warning("mathematics: %s in %s", error, tex, location=node)
        return f"<code>{tex}</code>"


def with_braces(tex: str) -> str:
    r"""Put braces around arguments of one token, which the converter needs and TeX does not.

    Examples
    --------
    >>> with_braces(r"\tfrac12 \bar x_t + \frac{a}\pi")
    '\\tfrac{1}{2} \\bar{x}_t + \\frac{a}{\\pi}'
    """
    done, rest = "", tex
    while found := _COMMAND.search(rest):
        done, rest = done + rest[: found.end()], rest[found.end() :]
        for _ in range(_ARGUMENTS.get(found[1], 1)):
            token = _TOKEN.match(rest)
            if token is None:  # an argument in braces, or in brackets
                group = _GROUP.match(rest)
                if group is None:
                    break
                done, rest = done + with_braces(group[0]), rest[group.end() :]
            else:
                done, rest = f"{done}{{{token[1]}}}", rest[token.end() :]
    return done + rest
