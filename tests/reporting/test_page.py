"""The page of a report: one file that loads nothing, with all text escaped."""

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pages import CURVES, Html, ReportPage
from pages import a_page as made_page

from ndflow.reporting.content import (
    Column,
    Page,
    Picture,
    ScanEntry,
)
from ndflow.reporting.page import render
from ndflow.reporting.strip import strip_of
from ndflow.values import Doubt

HOSTILE = "</script><!--<script>alert('1')</script>\u2028\"&amp; x' onload=alert(2) {{ 7*7 }}"
DRAWING = b"""<?xml version="1.0"?><!DOCTYPE svg PUBLIC "x" "http://www.w3.org/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 xmlns:x="urn:x" width="72pt" height="36pt" viewBox="0 0 72 36" onload="alert(1)">
<metadata>http://purl.org/dc</metadata><script>alert(1)</script>
<foreignObject><body xmlns="http://www.w3.org/1999/xhtml">no</body></foreignObject>
<style>*{stroke-linejoin: round}</style>
<defs><clipPath id="c"><rect width="9" height="9"/></clipPath><path id="m" d="M0 0"/></defs>
<g id="alone" clip-path="url(#c)" style="fill: url(http://x.org/y)"><use xlink:href="#m"/>
<image xlink:href="data:image/png;base64,AA=="/><image xlink:href="https://x.org/z.png"/>
<text>a &lt;b&gt; c</text></g><x:thing/></svg>"""


class Reader(Html):
    """The elements of a page, with the text of each alone."""

    nested = False

    def texts(self, tag: str) -> list[str]:
        return ["".join(text) for name, _, text in self.elements if name == tag]

    def named(self, name: str) -> str:
        return next("".join(text) for _, attrs, text in self.elements if attrs.get("id") == name)


def a_page(name: str = "site", **changes) -> Page:
    return made_page(DRAWING, name, **changes)


@cache
def read() -> Reader:
    return Reader(render(a_page()))


@settings(max_examples=15, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
@example(HOSTILE)
def test_any_name_is_shown_as_it_is_and_changes_no_element(name):
    page = Reader(render(a_page(name)))
    assert [tag for tag, _, _ in page.elements] == [tag for tag, _, _ in read().elements]
    assert page.texts("h1") == page.texts("pre") == [name]
    data = page.named("volumes-1")
    assert not re.search("[<>&\u2028\u2029]", data)
    assert json.loads(data)["name"] == name


def test_names_that_are_not_unicode_can_be_written():
    assert b"caf?" in render(a_page(b"caf\xe9".decode("utf-8", "surrogateescape"))).encode()


def test_ids_are_unique_and_every_reference_within_the_page_leads_somewhere():
    page = read()
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs, _ in page.elements:
        for key, value in attrs.items():
            if key in ("href", "src"):
                # Pictures of the preparation may lie beside the page.
                assert value.startswith(("#", "data:", "figures/")), (tag, value)
            if key == "href" and value.startswith("#"):
                assert value[1:] in ids
            if key in ("aria-labelledby", "aria-describedby", "aria-controls", "for", "data-of"):
                assert value in ids
            assert set(re.findall(r"url\(#([^)]*)\)", value or "")) <= set(ids)


def test_drawings_keep_shapes_and_lose_scripts():
    page = Reader(render(a_page(populations=[Picture(DRAWING, "site")], sites=[], pictures=[])))
    drawn = [(tag, attrs) for tag, attrs, _ in page.elements if tag in ("use", "image")]
    assert sum(tag == "use" for tag, _ in drawn) == 1
    assert {attrs.get("href") for tag, attrs in drawn if tag == "image"} == {
        "data:image/png;base64,AA==",
        None,  # also of the viewer's frames, until they are filled
    }
    for _, attrs, _ in page.elements:
        assert not [name for name in attrs if name.startswith("on")]
    assert {"metadata", "foreignobject", "x:thing"}.isdisjoint(tag for tag, _, _ in page.elements)
    assert "x.org" not in page.source
    assert page.texts("text") == ["a <b> c"]
    (drawing,) = (attrs for _, attrs, _ in page.elements if attrs.get("id") == "picture-1")
    assert drawing["role"] == "img"
    assert drawing["aria-label"] == "site"
    assert drawing["style"] == "--width:96px"  # 72 points
    assert drawing["viewbox"] == "0 0 72 36"
    assert page.texts("style")[1:] == ["#picture-1{*{stroke-linejoin: round}}"]


@pytest.mark.parametrize("tag", ["script", "foreignObject", "style", "{urn:x}script"])
def test_a_drawing_is_an_svg_element_whatever_its_root(tag):
    space, _, name = tag.rpartition("}")
    root = f'<{name} xmlns="{space[1:] or "http://www.w3.org/2000/svg"}">alert(1)</{name}>'
    page = Reader(render(a_page(populations=[Picture(root.encode(), "x")], sites=[], pictures=[])))
    (drawn,) = (tag for tag, attrs, _ in page.elements if attrs.get("id") == "picture-1")
    assert drawn == "svg"


def test_only_the_scripts_of_the_page_are_allowed_to_run():
    bundle = "var niivue = '</script>';\r\nlet x;\n//# sourceMappingURL=niivue.js.map\n"
    page = Reader(render(a_page(), bundle=bundle))
    policy = next(attrs["content"] for tag, attrs, _ in page.elements if "http-equiv" in attrs)
    script = next(
        "".join(text)
        for tag, attrs, text in page.elements
        if tag == "script" and "type" not in attrs
    )
    unpacked = gzip.decompress(base64.b64decode(page.named("niivue")))
    assert unpacked.rstrip() == b"var niivue = '</script>';\nlet x;"
    expected = [base64.b64encode(hashlib.sha256(s).digest()) for s in (script.encode(), unpacked)]
    assert re.findall("'sha256-([^']*)'", policy) == [digest.decode() for digest in expected]
    assert "default-src 'none'" in policy
    assert "http" not in policy


def shown_in_a_column(*cells) -> list[str]:
    scans = [ScanEntry(f"s{i}", "c", [cell]) for i, cell in enumerate(cells)]
    page = ReportPage(render(a_page(columns=[Column("W1", "")], scans=scans)))
    return [cells[1] for cells in page.rows.values()]


def test_numbers_have_three_digits_or_are_whole_and_unknown_ones_are_a_dash():
    cells = (0.123456, -0.25, None, float("nan"), 0, -1e-7, np.float32(0.5), "a", 174291, 1234.56)
    assert shown_in_a_column(*cells) == [
        *("0.123", "−0.25", "–", "–", "0", "−1e−07", "0.5", "a", "174,291", "1,235")
    ]
    page = Reader(render(a_page()))
    values = [attrs.get("data-value") for tag, attrs, _ in page.elements if tag == "td"]
    assert [float(v) for v in values if v][:1] == [0.25]


def test_curves_are_written_to_four_digits_of_their_range():
    x = 1e4 + np.linspace(0, 3, 50)
    density = np.exp(-((x - 1e4 - 1) ** 2)) / 1e5
    density[7] = np.nan
    curves = dict(zip(CURVES, (x, density, density, x, x, x, density, np.zeros(50)), strict=True))
    scan = ReportPage(render(a_page(scans=[ScanEntry("s", "c", [1, 2], curves=curves)]))).data
    for name, truth in (("x", x), ("histogram", density), ("target", np.zeros(50))):
        exponent, *whole = scan["scans"][0]["curves"][name]
        assert all(isinstance(value, int | None) for value in whole)
        read = np.array([np.nan if v is None else v * 10.0**exponent for v in whole])
        assert np.array_equal(np.isnan(read), np.isnan(truth))
        assert np.nanmax(np.abs(read - truth)) <= np.ptp(truth[~np.isnan(truth)]) / 1e3


def test_scans_are_points_by_site_of_the_first_numbers_that_differ():
    cells = {"a": (3.0, 1.0, np.float32(2.5)), "b": (2.0, None, float("nan"), 5.0)}
    scans = [ScanEntry(f"{c}{v}", c, ["x", 7, v]) for c, own in cells.items() for v in own]
    page = a_page(columns=[Column(name, name) for name in ("text", "same", "told")], scans=scans)
    strip = strip_of(page)
    assert strip.column.name == "told"
    assert [(row.site, row.median, row.middle) for row in strip.rows] == [
        ("a", 2.5, 37.5),
        ("b", 3.5, 62.5),
    ]
    for row in strip.rows:
        for point in row.points:
            assert scans[point.number - 1].name == f"{row.site}{point.value}"
            assert point.across == 25 * (point.value - 1)
    assert [text for _, text in strip.ticks] == ["1", "2", "3", "4", "5"]
    assert strip_of(replace(page, scans=scans[:3])) is None  # one can look at each
    points = [attrs for tag, attrs, _ in Reader(render(page)).elements if tag == "a"]
    assert any(at.get("title") == "a3.0: 3" and at["href"] == "#scan-1" for at in points)


def test_scans_to_check_are_grouped_by_kind_and_few_are_open():
    kinds = {"whole head": 60, "few voxels": 2}
    flags = {kind: Doubt(kind, f"Seen: {kind}.", f"try {number}") for kind, number in kinds.items()}
    scans = [
        ScanEntry(f"s{i}", "c", [1, 2], [flags[kind] for kind, count in kinds.items() if i < count])
        for i in range(80)
    ]
    text = render(a_page(scans=scans))
    page = ReportPage(
        text[text.index('<section id="check"') : text.index('<section id="failures"')]
    )
    assert page.texts("h3") == ["Whole head 60 scans", "Few voxels 2 scans"]
    assert page.texts("p", **{"class": "hint"}) == ["Try 60.", "Try 2."]
    cards = [attrs["data-flagged"] for tag, attrs, _ in page.elements if tag == "li"]
    assert cards == [str(i + 1) for i in (*range(60), *range(2))]
    assert page.texts("summary") == ["Show the other 54 scans"]
    assert "60 of 80 scans to inspect" in ReportPage(text).texts("a")
