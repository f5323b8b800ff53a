"""The page of a report: one file that loads nothing, with all text escaped."""

import base64
import gzip
import hashlib
import json
import random
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import Html

from ndflow.doubt import Doubt
from ndflow.errors import InvalidValueError
from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.export import svg
from ndflow.reporting import viewer
from ndflow.reporting.content import Headline, Numbers, Page, Picture, ScanEntry, SiteEntry, Views
from ndflow.reporting.page import render
from ndflow.reporting.viewer import niivue

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
    picture = Picture(DRAWING, name, name)
    views = Views(b"before" + bytes(range(256)), b"after", picture)
    page = Page(
        title=name,
        facts=[(name, name)],
        failures=[(name, name, name)],
        headline=Headline(name, [(name, name)], picture),
        populations=picture,
        sites=[SiteEntry(name, 2, "#0072B2", picture, name)],
        columns=["W1", name],
        scans=[
            ScanEntry(name, name, [0.25, name], [Doubt(name, name, name)], picture, views),
            ScanEntry("plain", name, [None, "x"]),
        ],
        tables=[Numbers(name, name, [name, "b"], [[name, "1"]])],
        pictures=[picture],
        methods=name,
        citation=name,
    )
    return replace(page, **changes)


@cache
def read(name: str = "site") -> Reader:
    return Reader(render(a_page(name), bundle="var niivue = {};"))


def test_no_name_becomes_markup():
    plain, hostile = read(), read(HOSTILE)
    tags = [Counter(tag for tag, _, _ in page.elements) for page in (plain, hostile)]
    assert tags[0] == tags[1]
    assert hostile.texts("h1") == [HOSTILE]
    assert hostile.named("citation-text") == HOSTILE
    assert "49" not in hostile.named("methods-text")


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_any_name_is_shown_as_it_is_and_changes_no_element(name):
    page = Reader(render(a_page(name)))
    assert [tag for tag, _, _ in page.elements] == [
        tag for tag, _, _ in Reader(render(a_page())).elements
    ]
    assert page.texts("h1") == [name]


def test_data_of_scripts_hold_the_names_and_volumes_and_no_sign_of_html():
    data = read(HOSTILE).named("volumes-1")
    assert not re.search("[<>&\u2028\u2029]", data)
    scan = json.loads(data)
    assert scan["name"] == HOSTILE
    assert base64.b64decode(scan["before"]) == b"before" + bytes(range(256))
    assert base64.b64decode(scan["after"]) == b"after"


def test_names_that_are_not_unicode_can_be_written():
    assert b"caf?" in render(a_page(b"caf\xe9".decode("utf-8", "surrogateescape"))).encode()


def test_ids_are_unique_and_every_reference_within_the_page_leads_somewhere():
    page = read()
    ids = [attrs["id"] for _, attrs, _ in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs, _ in page.elements:
        for key, value in attrs.items():
            if key in ("href", "src"):
                assert value.startswith(("#", "data:")), (tag, value)
            if key == "href" and value.startswith("#"):
                assert value[1:] in ids
            if key in ("aria-labelledby", "for", "data-of"):
                assert value in ids
            assert set(re.findall(r"url\(#([^)]*)\)", value or "")) <= set(ids)


def test_drawings_keep_shapes_and_lose_scripts():
    page = read()
    drawn = [(tag, attrs) for tag, attrs, _ in page.elements if tag in ("use", "image")]
    count = len([1 for tag, _, _ in page.elements if tag == "svg"])
    assert count == 6  # headline, populations, site, scan, slices, further
    assert sum(tag == "use" for tag, _ in drawn) == count
    assert {attrs.get("href") for tag, attrs in drawn if tag == "image"} == {
        "data:image/png;base64,AA==",
        None,
    }
    for _, attrs, _ in page.elements:
        assert not [name for name in attrs if name.startswith("on")]
    assert {"metadata", "foreignobject", "x:thing"}.isdisjoint(tag for tag, _, _ in page.elements)
    assert "x.org" not in render(a_page())
    assert page.texts("text") == ["a <b> c"] * count
    for tag, attrs, _ in page.elements:
        if tag == "svg":
            assert attrs["role"] == "img"
            assert attrs["aria-label"] == "site"
            assert attrs["style"] == "--width:96px"  # 72 points
            assert attrs["viewbox"] == "0 0 72 36"
    styles = page.texts("style")[1:]
    assert styles == [f"#picture-{i + 1}{{*{{stroke-linejoin: round}}}}" for i in range(count)]


def test_a_figure_of_matplotlib_is_drawn_whole():
    x = np.linspace(-1, 1, 20)
    drawing = svg(density_figure([DensityPanel("panel", x, {"<b>": [1 - x**2, 1 - x**4]})]))
    page = Reader(render(a_page(populations=Picture(drawing, "densities"))))
    assert "<b> (2)" in page.texts("text")
    assert sum(tag == "path" for tag, _, _ in page.elements) > drawing.count(b"<path ")


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


def test_empty_sections_are_left_out_with_their_links():
    bare = a_page(populations=None, sites=[], scans=[], tables=[], pictures=[], failures=[])
    page = Reader(render(bare, bundle="var niivue;"))
    sections = [attrs["id"] for tag, attrs, _ in page.elements if tag == "section"]
    assert sections == ["run", "result", "methods", "citation"]
    links = [attrs["href"] for tag, attrs, _ in page.elements if tag == "a"]
    assert links == ["#main", *(f"#{name}" for name in sections)]
    assert not [1 for _, attrs, _ in page.elements if attrs.get("id") == "niivue"]


def test_numbers_are_short_and_unknown_ones_a_dash():
    cells = [0.123456, 174291, -2.5, None, float("nan"), 0, 1e-7, np.float32(0.5), "a"]
    scan = ScanEntry("s", "c", cells)
    page = Reader(render(a_page(columns=[""] * len(cells), scans=[scan])))
    shown = page.texts("td")
    start = shown.index("c") + 1
    assert shown[start : start + len(cells)] == [
        *("0.123", "174,291", "−2.5", "–", "–", "0", "1e−07", "0.5", "a")
    ]
    values = [attrs.get("data-value") for tag, attrs, _ in page.elements if tag == "td"]
    assert [float(v) for v in values if v][:3] == [0.123456, 174291, -2.5]


def test_the_same_page_is_the_same_file():
    assert render(a_page(), bundle="x") == render(a_page(), bundle="x")


def test_twenty_scans_with_figures_and_volumes_stay_below_eight_megabytes():
    noise = random.Random(1)
    points = " ".join(f"L{noise.random():.6f} 1" for _ in range(6_500))
    drawing = DRAWING.replace(b"M0 0", f"M0 0{points}".encode())
    assert len(drawing) > 70_000
    views = Views(noise.randbytes(60_000), noise.randbytes(60_000), Picture(DRAWING, "slices"))
    scans = [ScanEntry(f"s{i}", "c", [i, ""], (), Picture(drawing, "d"), views) for i in range(20)]
    text = render(a_page(scans=scans), bundle=niivue() or "")
    assert len(text.encode()) < 8e6


def test_niivue_comes_from_nilearn_or_not_at_all(monkeypatch, tmp_path):
    pytest.importorskip("nilearn", "0.14")
    assert "Niivue" in niivue()
    monkeypatch.setattr(viewer, "files", lambda name: tmp_path)
    assert niivue() is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Picture(DRAWING, " "), "alt must"),
        (lambda: SiteEntry("c", 1, "red;x:url(y)", None, ""), "colour must"),
        (lambda: Numbers("t", "", ["a", "b"], [["1"]]), "rows of 't' must have 2"),
        (lambda: a_page(columns=["one"]), "cells of 'site' must be 1"),
        (lambda: render(a_page(populations=Picture(b"<svg", "p"))), "svg of 'p'"),
        (lambda: render(a_page(populations=Picture(b"<html/>", "p"))), "svg of 'p'"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()
