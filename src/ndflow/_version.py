"""The version, which model files carry too, and those of what results depend on."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec

__version__ = "0.2.0"

# Raise this with every change that gives any voxel, map or mixture another value: studies made
# before are then made again, and with a version that changes no result they are not.
RESULTS = 5

# The same for prepared scans: masks, bias fields and tissue maps, which take longer to make again.
PREPARATIONS = 5


def installing(extra: str) -> str:
    """Say how to install an extra; the only place that does, to be changed at a release."""
    return f"pip install '.[{extra}]' in a clone of ndflow"


def not_installed(*names: str) -> list[str]:
    """Return which packages cannot be imported."""
    return [name for name in names if find_spec(name) is None]


def versions(*more: str) -> dict[str, str]:
    """Return the versions of what makes results, and of more packages where they are installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    packages = {name: version(name) for name in ("numpy", "scipy", "nibabel")}
    for name in more:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {"ndflow": __version__, "Python": platform.python_version(), **packages}
