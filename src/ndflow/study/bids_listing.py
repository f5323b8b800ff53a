"""The subjects of a BIDS dataset, with one channel or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ndflow.errors import FileError, InvalidValueError
from ndflow.image.subject import Subject, TissueMaps
from ndflow.study.bids_names import Entities, check_label, natural, read_filters, without_desc
from ndflow.study.bids_query import BidsImage, find_scans
from ndflow.study.listing import Listing
from ndflow.study.table import FILES, OURS, TEXTS, nearest
from ndflow.values import listed

# Columns of OUT/scans.tsv, which the tables of a dataset may have too, to mean something else.
TAKEN = {*FILES, *TEXTS, *OURS}

_BRAIN = "_desc-brain_mask"
_NAMED = 5  # subjects that are left out, in warnings
_TAKEN_MEANING = "means something else in the list of scans; rename to keep"


@dataclass(frozen=True)
class Dataset:
    """A BIDS dataset, and what of it is asked for.

    Attributes
    ----------
    path : its folder.
    suffixes : of the images, such as T1w.
    participants, sessions : labels; all, if there are none.
    filter_file : which images to take, see `ndflow.study.bids_names.read_filters`.
    site_column : names the sites in its tables.
    derivatives : folders with masks and tissue probability maps, by name.
    """

    path: str
    suffixes: Sequence[str] = ("T1w",)
    participants: Sequence[str] = ()
    sessions: Sequence[str] = ()
    filter_file: str | None = None
    site_column: str | None = None
    derivatives: Mapping[str, Path] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder of the dataset."""
        return Path(self.path).absolute()


def read_dataset(dataset: Dataset, *, joint: bool, masks_needed: bool) -> dict[str, Listing]:
    """Find the subjects of a dataset.

    Parameters
    ----------
    dataset : where to look, and for what.
    joint : whether the images of all suffixes belong together, or are listed one by one.
    masks_needed : whether derivatives that are given must have a mask for each.

    Returns
    -------
    listings : by suffix; of all together under ``""``.
    """
    names = [check_label("suffix", name) for name in dataset.suffixes]
    if len({name.lower() for name in names}) < len(names):
        raise InvalidValueError(f"--suffix: {' '.join(names)}: the same twice; leave one out")
    filters = dataset.filter_file and read_filters(dataset.filter_file, names)
    hints = []
    if filters and filters.unused:
        unused = ", ".join(filters.unused)
        hints = [f"{dataset.filter_file}: queries for other images are not used: {unused}"]
    found = {
        name: find_scans(
            dataset.path,
            suffix=name,
            participants=dataset.participants,
            sessions=dataset.sessions,
            site_column=dataset.site_column,
            derivatives=dataset.derivatives.values(),
            chosen=filters.of[name] if filters else None,
        )
        for name in names
    }
    if joint:
        rows, left_out = _visits(found)
        if not rows:
            name, why = next(iter(left_out.items()))
            cause = f"no subject has all of {listed(names)}; {name}, for example, {why}"
            raise FileError(dataset.path, cause, "give other suffixes, or leave out --joint")
        out = [f"{dataset.path}: {name} {why}; left out" for name, why in left_out.items()]
        more = [f"{dataset.path}: {len(out) - _NAMED} more left out"] if len(out) > _NAMED else []
        whole = _listing(dataset, rows, masks_needed, [*hints, *out[:_NAMED], *more])
        skipped = Counter(f"that {why}" for why in left_out.values())
        return {
            "": replace(whole, source=f"{dataset.path} ({listed(names)} together)", skipped=skipped)
        }
    listings: dict[str, Listing] = {}
    for name, images in found.items():
        rows = {one.relative: {name: one} for one in images}
        listings[name] = _listing(dataset, rows, masks_needed, [] if listings else hints)
        if len(names) > 1:
            listings[name] = replace(listings[name], source=f"{dataset.path} ({name})")
    return listings


Rows = Mapping[str, Mapping[str, BidsImage]]  # by the name of the visit, then by channel


def _listing(dataset: Dataset, rows: Rows, masks_needed: bool, hints: Sequence[str]) -> Listing:
    """Return the subjects in some rows of images."""
    images = [one for row in rows.values() for one in row.values()]
    first = [_with_masks([*row.values()]) for row in rows.values()]
    if masks_needed and (error := _lacking_masks(first, dataset.derivatives)):
        raise error
    subjects = [
        _subject(name, row, one) for (name, row), one in zip(rows.items(), first, strict=True)
    ]
    taken = sorted({name for one in images for name in one.more if name.lower() in TAKEN})
    return Listing(
        subjects,
        dataset.path,
        dataset.root,
        unused=dict.fromkeys(taken, _TAKEN_MEANING),
        warnings=[
            *([] if dataset.site_column else _site_hints(images, dataset.root)),
            *hints,
            *_unused_derivatives(images, dataset.derivatives),
            *_unused_lesions(images),
        ],
    )


def _with_masks(row: Sequence[BidsImage]) -> BidsImage:
    """Return the first image of a visit, with the masks that any of its images has."""
    mask = next((one.mask for one in row if one.mask), None)
    lesion = next((one.lesion for one in row if one.lesion), None)
    tissues = next((one.tissues for one in row if one.tissues), {})
    return replace(row[0], mask=mask, lesion=lesion, tissues=tissues)


def _subject(name: str, row: Mapping[str, BidsImage], first: BidsImage) -> Subject:
    mask = str(Path(first.mask).absolute()) if first.mask else None
    return Subject(
        {channel: str(Path(one.image).absolute()) for channel, one in row.items()},
        mask,
        str(Path(first.lesion).absolute()) if first.lesion else None,
        _tissue_maps(first, mask),
        person=f"sub-{first.entities['sub']}",
        site=first.site,
        name=name if len(row) > 1 else "",
        origin=first.relative,
        covariates={n: cell for n, cell in first.more.items() if n.lower() not in TAKEN},
    )


def _tissue_maps(scan: BidsImage, mask: str | None) -> TissueMaps:
    """Return the tissue probability maps in derivatives, or beside the mask and named like it."""
    if scan.tissues:
        return TissueMaps(**{t: str(Path(path).absolute()) for t, path in scan.tissues.items()})
    if mask is None or _BRAIN not in Path(mask).name:
        return TissueMaps()
    beside = {
        tissue: Path(mask).with_name(
            Path(mask).name.replace(_BRAIN, f"_label-{tissue.upper()}_probseg")
        )
        for tissue in TissueMaps._fields
    }
    return TissueMaps(**{t: str(path) for t, path in beside.items() if path.exists()})


def _unused_derivatives(found: Sequence[BidsImage], derivatives: Mapping[str, Path]) -> list[str]:
    """Return which derivatives folders no scan takes a mask or a tissue probability map from."""
    files = {f for one in found for f in (one.mask, one.lesion, *one.tissues.values()) if f}
    return [
        f"{folder}: no mask or tissue probability map of these scans is taken from it"
        for folder in derivatives.values()
        if not any(Path(file).is_relative_to(folder) for file in files)
    ]


def _unused_lesions(found: Sequence[BidsImage]) -> list[str]:
    """Return a warning about lesion masks of scans without one that fit no scan by their names."""
    used = {one.lesion for one in found}
    others = dict.fromkeys(file for one in found for file in one.other_lesions if file not in used)
    if not others:
        return []
    what = "a lesion mask whose name matches"
    if len(others) > 1:
        what = f"the first of {len(others)} lesion masks whose names match"
    return [
        f"{next(iter(others))}: {what} none of these scans; name it like the scan that it was "
        f"drawn on, as in sub-01_run-1_label-lesion_mask.nii.gz"
    ]


def _lacking_masks(found: Sequence[BidsImage], derivatives: Mapping[str, Path]) -> FileError | None:
    """Return an error if some scans have no mask although derivatives should have them.

    Folders that gave lesion masks and not a single brain mask were given for these alone.
    """
    unmasked = [scan.relative for scan in found if scan.mask is None]
    if not derivatives or not unmasked:
        return None
    masks, lesions = (
        any(file and Path(file).is_relative_to(at) for file in files for at in derivatives.values())
        for files in ([one.mask for one in found], [one.lesion for one in found])
    )
    if lesions and not masks:
        return None
    cause = f"no mask for {len(unmasked)} of {len(found)} scans, such as {unmasked[0]}"
    first = next(iter(derivatives.values()))
    return FileError(first, cause, "add --mask brain, or --mask auto, to find them")


def _site_hints(found: Sequence[BidsImage], root: Path) -> list[str]:
    """Return columns that may name the sites, where no scan has a site."""
    if any(one.site for one in found):
        return []
    names = sorted({name for one in found for name in one.more if nearest(name) == "site"})
    table = root / "participants.tsv"
    return [
        f"{table}: no site is known, but there is a column {name!r}; if it names the sites, use "
        f"--site-column {name}"
        for name in names
    ]


def _visits(
    found: Mapping[str, Sequence[BidsImage]],
) -> tuple[dict[str, dict[str, BidsImage]], dict[str, str]]:
    """Return the images of each subject and session that belong together, and who lacks some.

    A visit with one image of each channel is a row. Where there are several of some, those belong
    together whose names differ in nothing but the suffix.
    """
    visits: dict[str, dict[str, list[BidsImage]]] = {}
    for channel, images in found.items():
        for image in images:
            visit = visits.setdefault(_called(image.entities, ("sub", "ses")), {})
            visit.setdefault(channel, []).append(image)
    rows: dict[str, dict[str, BidsImage]] = {}
    left_out = {}
    for name in sorted(visits, key=natural):
        visit = visits[name]
        if missing := [channel for channel in found if channel not in visit]:
            left_out[name] = f"has no {' and no '.join(missing)}"
        elif all(len(images) == 1 for images in visit.values()):
            rows[name] = {channel: visit[channel][0] for channel in found}
        else:
            together = _alike({channel: visit[channel] for channel in found})
            rows |= together
            used = {one.relative for row in together.values() for one in row.values()}
            for image in (one for images in visit.values() for one in images):
                if image.relative not in used:
                    left_out[image.relative] = "fits no image of each other channel by its name"
    return rows, left_out


def _alike(channels: Mapping[str, Sequence[BidsImage]]) -> dict[str, dict[str, BidsImage]]:
    """Return the images whose names differ in nothing but the suffix, by what they share."""
    named = {
        channel: {_called(without_desc(one.entities)): one for one in images}
        for channel, images in channels.items()
    }
    first, *others = named.values()
    shared = [name for name in first if all(name in other for other in others)]
    return {name: {channel: own[name] for channel, own in named.items()} for name in shared}


def _called(entities: Entities, keys: Sequence[str] | None = None) -> str:
    chosen = entities if keys is None else [key for key in keys if key in entities]
    return "_".join(f"{key}-{entities[key]}" for key in chosen)
