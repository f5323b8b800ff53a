"""Which images of a BIDS dataset are the channels of one subject, in one session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ndflow.bids.names import Entities, natural, without_desc
from ndflow.bids.query import BidsImage

__all__ = ["JointVisits", "joint_visits"]


class JointVisits(NamedTuple):
    """The subjects of a dataset, in each session, that have all channels.

    Attributes
    ----------
    images : of each channel, one per subject and session, all in the same order.
    names : of subjects and sessions, in that order.
    left_out : why others, or single images, are left out, by their names.
    """

    images: dict[str, list[BidsImage]]
    names: list[str]
    left_out: dict[str, str]


def joint_visits(found: Mapping[str, Sequence[BidsImage]]) -> JointVisits:
    """Find the images of each subject and session that belong together.

    Where there is one image of each channel, they do. Where there are several, such as runs, those
    belong together whose names differ in nothing but the suffix and ``desc``.

    Parameters
    ----------
    found : the images of each channel, see `ndflow.bids.query.find_scans`.
    """
    visits: dict[str, dict[str, list[BidsImage]]] = {}
    for channel, images in found.items():
        for image in images:
            visit = visits.setdefault(_called(image.entities, ("sub", "ses")), {})
            visit.setdefault(channel, []).append(image)
    rows: dict[str, list[BidsImage]] = {}
    left_out = {}
    for name in sorted(visits, key=natural):
        visit = visits[name]
        if missing := [channel for channel in found if channel not in visit]:
            left_out[name] = f"has no {' and no '.join(missing)}"
        elif all(len(images) == 1 for images in visit.values()):
            rows[name] = [visit[channel][0] for channel in found]
        else:
            together = _alike([visit[channel] for channel in found])
            rows |= together
            used = {one.relative for row in together.values() for one in row}
            for image in (one for images in visit.values() for one in images):
                if image.relative not in used:
                    left_out[image.relative] = "fits no image of each other channel by its name"
    chosen = {channel: [row[place] for row in rows.values()] for place, channel in enumerate(found)}
    return JointVisits(chosen, [*rows], left_out)


def _alike(channels: Sequence[Sequence[BidsImage]]) -> dict[str, list[BidsImage]]:
    """Return the images whose names differ in nothing but the suffix, by what they share."""
    named = [{_called(without_desc(one.entities)): one for one in images} for images in channels]
    shared = [name for name in named[0] if all(name in others for others in named[1:])]
    return {name: [images[name] for images in named] for name in shared}


def _called(entities: Entities, keys: Sequence[str] | None = None) -> str:
    chosen = entities if keys is None else [key for key in keys if key in entities]
    return "_".join(f"{key}-{entities[key]}" for key in chosen)
