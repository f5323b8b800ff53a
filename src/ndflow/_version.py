"""The version, which model files carry too, and those of what results depend on."""

from __future__ import annotations

__all__ = ["RESULTS", "__version__", "versions"]

__version__ = "0.1.0"

# Raise this with every change that gives any voxel, map or mixture another value: studies made
# before are then made again, and with a version that changes no result they are not.
RESULTS = 3


def versions() -> dict[str, str]:
    """Return the versions of what makes results."""
    import platform
    from importlib.metadata import version

    packages = {name: version(name) for name in ("numpy", "scipy", "nibabel")}
    return {"ndflow": __version__, "Python": platform.python_version(), **packages}
