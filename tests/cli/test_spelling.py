"""``ndflow normalize`` is ``ndflow normalise``."""

from pathlib import Path

from commands import Run


def test_the_american_spelling_does_the_same(run: Run, inputs: Path) -> None:
    scan, target, outputs = inputs / "scan.nii.gz", inputs / "reference.json", []
    for verb in ("normalise", "normalize"):
        outputs.append(inputs / f"{verb}.nii.gz")
        assert run(verb, scan, "--to", target, "-o", outputs[-1]).well
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
