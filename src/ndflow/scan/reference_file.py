"""A reference from mixtures, from images, or from both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ndflow.density import GaussianMixture
from ndflow.errors import FileError
from ndflow.files.atomic import AnyPath
from ndflow.files.stream import sha256_of
from ndflow.image.read import Source, files_of
from ndflow.methods.landmarks import Landmarks, standard
from ndflow.methods.model import needs_landmarks
from ndflow.population import Reference, Tissues, learn_ceiling, reference, tissue_model
from ndflow.scan.fit import fit_source
from ndflow.scan.model_files import is_model, load_described, save
from ndflow.scan.reading import selection
from ndflow.scan.results import stem
from ndflow.scan.target import known_landmarks
from ndflow.scan.tissue_maps import TissueMaps
from ndflow.settings import Average, Fitting, Matching, Reading, flat
from ndflow.transport import align

__all__ = ["Density", "density_of", "lacks_tissues", "write_reference"]


class Density(NamedTuple):
    """The density of a scan.

    Attributes
    ----------
    mixture : the density.
    landmarks : for methods that look at them.
    tissues : where maps of them are known.
    record : how it was estimated, if it was not read from a file.
    warnings : for the user.
    """

    mixture: GaussianMixture
    landmarks: Landmarks | None
    tissues: Tissues | None
    record: dict[str, Any]
    warnings: tuple[str, ...]


def density_of(
    source: AnyPath,
    *,
    mask: Source | None,
    exclude: Source | None,
    reading: Reading,
    fitting: Fitting,
    matching: Matching,
    maps: TissueMaps | None = None,
) -> Density:
    """Return the density in a file, or that of an image; parameters as for `read_scan`."""
    if not is_model(source):
        fitted = fit_source(
            source,
            mask=mask,
            exclude=exclude,
            reading=reading,
            fitting=fitting,
            matching=matching,
            maps=maps,
        )
        record = selection(mask, exclude) | flat(fitting)
        mixture = fitted.fit.mixture
        return Density(mixture, fitted.landmarks, fitted.tissues, record, fitted.warnings)
    model, saved, tissues, _ = load_described(source)
    if isinstance(model, Reference):
        hint = "give the mixtures that it was made of, from 'ndflow fit'"
        raise FileError(source, "a reference, which cannot be averaged with scans", hint)
    landmarks = None
    if needs_landmarks(matching):
        landmarks = known_landmarks(str(source), model, saved, matching)
    return Density(model, landmarks, tissues if isinstance(tissues, Tissues) else None, {}, ())


def lacks_tissues(sources: Sequence[AnyPath], densities: Sequence[Density]) -> AnyPath | None:
    """Return a source whose tissues are not known, where those of others are."""
    lacking = [s for s, d in zip(sources, densities, strict=True) if d.tissues is None]
    return lacking[0] if 0 < len(lacking) < len(densities) else None


def write_reference(
    output: AnyPath,
    sources: Sequence[AnyPath],
    densities: Sequence[Density],
    *,
    weights: Sequence[float] | None,
    average: Average,
    channel: str,
    force: bool,
    lesions: bool = False,
) -> Reference:
    """Average the densities of some sources and write the reference to a file.

    Parameters
    ----------
    output : where to.
    sources, densities : the files, and what was in them.
    weights, average : see `ndflow.reference`.
    channel : what the images show, for example ``"T1w"``.
    force : whether another file may be replaced.
    lesions : whether to keep what these scans have at most, so that lesions of others are found.
    """
    for source, density in zip(sources, densities, strict=True):
        if density.mixture.channels != 1:
            cause = f"a density of {density.mixture.channels} channels, not of one"
            raise FileError(source, cause, "fit one channel at a time")
    names = [stem(source) for source in sources]
    mixtures = [density.mixture for density in densities]
    made = reference(mixtures, weights=weights, average=average, names=names, channels=channel)
    record: dict[str, Any] = {
        "inputs": [
            {
                "name": name,
                "sha256": [sha256_of(file) for file in files_of(source)],
                **density.record,
            }
            for name, source, density in zip(names, sources, densities, strict=True)
        ],
    }
    known = [
        (density.landmarks, align(density.mixture), weight)
        for density, weight in zip(densities, weights or [1.0] * len(densities), strict=True)
        if density.landmarks is not None
    ]
    if known:
        known.sort(key=lambda one: (one[0].values.tolist(), one[2]))  # in any order, the same sum
        record["landmarks"] = standard(known).to_dict()
    if lacks_tissues(sources, densities) is None and densities[0].tissues is not None:
        heavy = weights or [1.0] * len(densities)
        parts = [
            (density.tissues, weight)
            for density, weight in zip(densities, heavy, strict=True)
            if density.tissues is not None
        ]
        parts.sort(key=lambda one: json.dumps(one[0].to_dict()))  # in any order, the same
        model = tissue_model([one for one, _ in parts], weights=[weight for _, weight in parts])
        record["tissues"] = model.to_dict()
    if lesions:
        record["alarm"] = learn_ceiling(mixtures, made.mixture).to_dict()
    save(output, made, record=record, force=force, inputs=sources)
    return made
