"""Formulas as MathML, which browsers draw by themselves: no script, no network."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging


def _mathml(self, node: nodes.Element, as_block: bool) -> None:
    text = node.astext()
    try:
        markup = tex2mathml(text, as_block=as_block)
    except (
        ValueError,
        SyntaxError,
        LookupError,
        AttributeError,
    ) as error:  # of formulas: a lone "^" or "&" ends in the last two
        # a warning, so `make docs` fails
        logging.getLogger(__name__).warning("formula %r: %s", text, error, location=node)
        markup = f"<code>{self.encode(text)}</code>"
    self.body.append(f'<div class="formula">{markup}</div>' if as_block else markup)
    raise nodes.SkipNode


def _inline(self, node: nodes.Element) -> None:
    _mathml(self, node, as_block=False)


def _block(self, node: nodes.Element) -> None:
    _mathml(self, node, as_block=True)


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
