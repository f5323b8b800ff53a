"""Which members of a class its page shows: those that ndflow describes.

Left out are fields of named tuples, which their class describes already, and methods that another
package adds.
"""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Decide when autodoc asks."""
    app.connect("autodoc-skip-member", _left_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _left_out(
    app: Sphinx, kind: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    text = getattr(member, "__doc__", None) or ""
    home = getattr(member, "__module__", None) or "ndflow"
    foreign = kind == "class" and not home.startswith("ndflow")
    return True if foreign or text.startswith("Alias for field number") else None
