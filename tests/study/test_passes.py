"""What a study makes of its scans: densities, references, and normalised images."""

from collections.abc import Callable
from typing import Any

import numpy as np
from studies import positive

from ndflow.options import Options
from ndflow.transport import align

Runs = Callable[..., Any]
SITES = ("Aachen", "Bonn", "Celle")


def test_each_map_is_alignment_the_map_of_the_site_and_its_own(study: Runs) -> None:
    done = study("two-level")
    for scan in done.scans:
        imap, before = done.load(f"maps/{scan.name}"), done.before(scan.name)
        assert imap.maps[:2] == (align(done.model(scan.name)), done.load(f"map_{scan.site}"))
        inside = before != 0
        np.testing.assert_allclose(done.after(scan.name)[inside], imap(before[inside]), atol=1e-3)


def test_a_scale_changes_the_units_and_nothing_else(study: Runs) -> None:
    plain, standard = study("site"), study("site", options=Options(scale="standard"))
    for name in ("reference", *(f"reference_{site}" for site in SITES)):
        assert plain.load(name) == standard.load(name)
    for name in plain.names():
        expected = positive(standard.after(name).astype(float))
        inside = plain.before(name) != 0
        np.testing.assert_allclose(plain.after(name)[inside], expected[inside], atol=1e-3)
        assert not plain.after(name)[~inside].any()
    assert plain.summary.doubts_of == standard.summary.doubts_of
