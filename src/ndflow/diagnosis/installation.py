"""What is installed: ndflow, Python, and the packages that ndflow needs or can use.

What it needs is read from its own metadata, which the build made from pyproject.toml, so that
there is no second list to keep up to date. If packaging, which understands them, is missing itself,
packages are looked for by their names alone.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import NamedTuple

from ndflow._version import __version__

__all__ = ["EXTRAS", "Extra", "Installation", "Package", "installation"]

# The extras for users, and what they are for; the others are for people who work on ndflow.
EXTRAS = {
    "report": "the page of a study, and figures",
    "evaluate": "ndflow evaluate, and methods of other packages",
    "prepare": "ndflow prepare, and --mask brain",
    "cluster": "--scheduler, on a Dask cluster",
    "sklearn": "ndflow.integrations.sklearn",
    "torchio": "ndflow.integrations.torchio",
    "monai": "ndflow.integrations.monai",
}

_NEED_TORCH = ("monai", "prepare", "torchio")
_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")


@dataclass(frozen=True)
class Package:
    """A package that is needed.

    Attributes
    ----------
    name : as the package index knows it.
    wanted : the versions that will do, such as ``>=2.0``.
    version : the one that is installed; None if there is none.
    lacks : packages that it needs itself and that are not installed.
    """

    name: str
    wanted: str
    version: str | None
    lacks: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """What is wrong, in a few words; empty if it will do."""
        if self.version is None:
            return self.name
        if not _will_do(self.version, self.wanted):
            return f"{self.name}{self.wanted} (here {self.version})"
        return f"{', '.join(self.lacks)} (for {self.name})" if self.lacks else ""


@dataclass(frozen=True)
class Extra:
    """An extra, such as ``report``, and the packages that it brings."""

    name: str
    packages: tuple[Package, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing, too old, or incomplete."""
        return tuple(one.problem for one in self.packages if one.problem)

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f"pip install 'ndflow[{self.name}]'"

    @property
    def needs_torch(self) -> bool:
        """Whether it brings torch, of which there are builds of very different sizes."""
        return self.name in _NEED_TORCH


@dataclass(frozen=True)
class Installation:
    """What is installed.

    Attributes
    ----------
    ndflow, python, system : versions; of the operating system, also its name.
    packages : that ndflow needs.
    extras : that it can use.
    torch : the version of torch; None if there is none.
    metadata : the version that was installed, where it differs from `ndflow`, because the source
        was changed since; empty if ndflow was not installed at all; otherwise None.
    """

    ndflow: str
    python: str
    system: str
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    torch: str | None = None
    metadata: str | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        """What ndflow needs and is missing, too old, or incomplete."""
        return tuple(one.problem for one in self.packages if one.problem)


def installation() -> Installation:
    """Return what is installed."""
    own, torch = _installed("ndflow"), _installed("torch")
    packages: tuple[Package, ...] = ()
    extras: tuple[Extra, ...] = ()
    metadata: str | None = ""
    if own is not None:
        packages = tuple(_needs(own, ""))
        offered = own.metadata.get_all("Provides-Extra") or ()
        extras = tuple(Extra(name, tuple(_needs(own, name))) for name in EXTRAS if name in offered)
        metadata = None if own.version == __version__ else own.version
    return Installation(
        ndflow=__version__,
        python=platform.python_version(),
        system=platform.platform(),
        packages=packages,
        extras=extras,
        torch=None if torch is None else torch.version,
        metadata=metadata,
    )


class _Need(NamedTuple):
    """The name of a package, and the versions that will do."""

    name: str
    wanted: str = ""


def _needs(own: Distribution, extra: str) -> Iterator[Package]:
    """Yield the packages that an extra brings; those that are always needed for ``""``."""
    always = {one.name for one in _requirements(own, "")} if extra else set()
    for one in _requirements(own, extra):
        if one.name not in always:
            found = _installed(one.name)
            if one.name == "packaging" and not _has_packaging():
                found = None
            lacks = [] if found is None else _requirements(found, "")
            yield Package(
                one.name,
                one.wanted,
                None if found is None else found.version,
                tuple(sorted(other.name for other in lacks if _installed(other.name) is None)),
            )


def _requirements(package: Distribution, extra: str) -> list[_Need]:
    """Return what a package requires on this machine, with an extra or (``""``) without."""
    if not _has_packaging():
        return list(_names(package.requires or (), extra))
    from packaging.requirements import Requirement

    return [
        _Need(one.name, str(one.specifier))
        for one in map(Requirement, package.requires or ())
        if one.marker is None or one.marker.evaluate({"extra": extra})
    ]


def _names(requirements: Iterable[str], extra: str) -> Iterator[_Need]:
    """Yield what is required whatever the machine: packaging understands the other conditions."""
    for one in requirements:
        text, _, condition = (part.strip() for part in one.partition(";"))
        of_extra = _EXTRA.fullmatch(condition)
        wanted = not condition or (of_extra is not None and of_extra[1] == extra)
        if wanted and (name := _NAME.match(text)):
            yield _Need(name[0])


def _will_do(version: str, wanted: str) -> bool:
    if not _has_packaging():
        return True
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(wanted).contains(version, prereleases=True)


def _has_packaging() -> bool:
    try:
        import packaging.requirements  # noqa: F401
    except ImportError:
        return False
    return True


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
