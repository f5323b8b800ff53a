"""The tables of a comparison as text, in the layout of the paper."""

from compared_runs import Desk, compared

from ndflow.compare.measure import TISSUE_ROWS
from ndflow.compare.result_tables import tables
from ndflow.compare.summary import ABOUT, TISSUES_TITLE, Section, as_text, sections


def test_columns_are_aligned_and_notes_come_last() -> None:
    part = Section("Title", "A note.", ["condition", "w1"], [["flow", "0.5"], ["unaligned", "–"]])
    assert as_text([part, part], ["one", "two"]) == (
        "Title\nA note.\n\n"
        "condition   w1\n"
        "flow       0.5\n"
        "unaligned    –\n\n\n"
        "Title\nA note.\n\n"
        "condition   w1\n"
        "flow       0.5\n"
        "unaligned    –\n\n\n"
        "Not done\none\ntwo\n"
    )


def test_there_is_a_section_for_each_table_that_scans_allow(desk: Desk) -> None:
    comparison = compared(desk.run("flow"))
    made = tables(comparison, ["age"])
    names = {table.name for table in made}
    assert names == {
        *("fitness_scans", "fitness", "tissue_scans", "tissue", "sites"),
        *("classification", "predictions", "repeats", "covariate"),
        *("contrast", "reliability", "features"),
    }
    for table in made:
        assert {len(row) for row in table.rows} == {len(table.columns)}
    first, *rest = sections(comparison, made)
    assert first.title == TISSUES_TITLE
    assert "Mean ± sd over 12 scans" in first.note
    assert first.head == [
        "condition",
        *(f"{tissue} Q{quartile}" for tissue in TISSUE_ROWS for quartile in (1, 2, 3)),
        *("mean sd", "÷ gap"),
    ]
    assert [row[0] for row in first.rows] == ["unnormalised", "affine", "flow"]
    assert [(part.title, part.note) for part in rest] == list(ABOUT.values())
    bare = sections(comparison, [table for table in made if table.name == "fitness"])
    assert [part.title for part in bare] == [ABOUT["fitness"][0]]


def test_only_studies_are_marked_as_better_than_the_alignment(desk: Desk) -> None:
    comparison = compared(desk.run("flow"))
    first, *_ = sections(comparison, tables(comparison))
    marked = {row[0]: {"*", "†"} & set("".join(row[1:])) for row in first.rows}
    assert marked["unnormalised"] == marked["affine"] == set()
    assert marked["flow"]
