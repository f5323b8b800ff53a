"""The commands of ndflow as Nipype interfaces, and a workflow of them.

    python ndflow_nipype.py study.tsv results --processes 4

fits the density of every scan of a table, averages them into a reference, and brings every scan to
it. The table is that of ``ndflow cohort``: tab-separated, with a column ``image``, and optionally
``mask``, ``lesion``, ``csf``, ``gm`` and ``wm``; paths are relative to the table. The images and
their sidecars are in ``results``, and what Nipype needs in order to resume is in ``results/work``.

In a workflow of your own, copy this file beside it, and use the interfaces in nodes::

    from nipype import Node
    from ndflow_nipype import Normalise

    node = Node(Normalise(to="/data/reference.json", dtype="int16"), "normalise")

Nodes run in folders of their own, so paths must be absolute. Options that have no input of their
own go into ``args``, as for any command of Nipype.
"""

from __future__ import annotations

import argparse
import csv
import shlex
from pathlib import Path

from nipype import DataSink, MapNode, Node, Workflow
from nipype.interfaces.base import (
    CommandLine,
    CommandLineInputSpec,
    File,
    InputMultiObject,
    TraitedSpec,
    traits,
)

__all__ = ["Fit", "Normalise", "Reference", "normalising_workflow"]

ENDINGS = (".nii.gz", ".nii", ".mgz", ".mgh")
COLUMNS = ("image", "mask", "lesion", "csf", "gm", "wm")  # of the table, that name files


class _Command(CommandLine):
    """A command whose files may have any name: Nipype quotes single files, but no lists of them."""

    def _format_arg(self, name, spec, value):
        if isinstance(value, str) and not spec.is_trait_type(File):
            value = shlex.quote(value)
        elif isinstance(value, list):
            value = [shlex.quote(str(one)) for one in value]
        return super()._format_arg(name, spec, value)

    def _written(self) -> Path:
        """Return the file that the command has written."""
        output = self.inputs.output
        return Path(output if isinstance(output, str) else self._gen_filename("output")).absolute()


class _ScanInputs(CommandLineInputSpec):
    """What `ndflow fit` and `ndflow normalise` have in common."""

    image = File(exists=True, mandatory=True, position=0, argstr="%s", desc="the scan")
    mask = traits.Either(
        File(exists=True), traits.Enum("auto", "brain"), argstr="--mask %s", desc="its brain mask"
    )
    exclude = File(exists=True, argstr="--exclude %s", desc="a mask of lesions")
    csf = File(exists=True, argstr="--tissue-maps csf=%s", desc="tissue probability map of CSF")
    gm = File(exists=True, argstr="--tissue-maps gm=%s", desc="tissue probability map of GM")
    wm = File(exists=True, argstr="--tissue-maps wm=%s", desc="tissue probability map of WM")
    quiet = traits.Bool(argstr="--quiet", desc="print nothing but errors")


class _FitInputs(_ScanInputs):
    output = File(argstr="--output %s", genfile=True, hash_files=False, desc="the mixture (.json)")


class _FitOutputs(TraitedSpec):
    mixture = File(exists=True, desc="the density of the scan")


class Fit(_Command):
    """Estimate the density of a scan (``ndflow fit``).

    Examples
    --------
    >>> Fit(image="scan.nii.gz", mask="brain.nii.gz").cmdline
    'ndflow fit scan.nii.gz --mask brain.nii.gz --output scan.json'
    """

    _cmd = "ndflow fit"
    input_spec = _FitInputs
    output_spec = _FitOutputs

    def _gen_filename(self, name):
        return f"{stem(self.inputs.image)}.json"

    def _list_outputs(self):
        return {"mixture": str(self._written())}


class _ReferenceInputs(CommandLineInputSpec):
    sources = InputMultiObject(
        File(exists=True),
        mandatory=True,
        position=0,
        argstr="%s",
        desc="mixtures (.json), or images",
    )
    output = File("reference.json", usedefault=True, argstr="--output %s", hash_files=False)
    channel = traits.Str(argstr="--channel %s", desc="the contrast, such as T1w")
    average = traits.Enum("quantile", "density", argstr="--set average=%s")
    weights = traits.List(traits.Float(), argstr="--weights %s", desc="one for each scan")
    quiet = traits.Bool(argstr="--quiet", desc="print nothing but errors")


class _ReferenceOutputs(TraitedSpec):
    reference = File(exists=True, desc="the average of all densities")


class Reference(_Command):
    """Average the densities of scans into a reference (``ndflow reference``)."""

    _cmd = "ndflow reference"
    input_spec = _ReferenceInputs
    output_spec = _ReferenceOutputs

    def _list_outputs(self):
        return {"reference": str(self._written())}


class _NormaliseInputs(_ScanInputs):
    to = traits.Either(
        File(exists=True),
        traits.Enum("builtin:T1w"),
        mandatory=True,
        argstr="--to %s",
        desc="a reference or a mixture (.json), an image, or builtin:T1w",
    )
    to_mask = traits.Either(
        File(exists=True), traits.Enum("auto", "brain"), argstr="--to-mask %s", requires=["to"]
    )
    output = File(argstr="--output %s", genfile=True, hash_files=False, desc="the image to write")
    preset = traits.Enum("auto", "paper", argstr="--preset %s")
    method = traits.Str(argstr="--method %s", desc="ndflow, affine, nyul, …")
    proportions = traits.Enum("average", "tissue", "adaptive", argstr="--proportions %s")
    scale = traits.Enum(
        "positive", "standard", "target", argstr="--scale %s", xor=["range"], desc="the units"
    )
    range = traits.Tuple(traits.Float(), traits.Float(), argstr="--range %g %g", xor=["scale"])
    outside = traits.Enum("zero", "keep", "map", argstr="--set outside=%s")
    dtype = traits.Str(argstr="--dtype %s", desc="float32, int16, …")


class _NormaliseOutputs(TraitedSpec):
    image = File(exists=True, desc="the normalised scan")
    sidecar = File(exists=True, desc="its intensity map, and how it was made")


class Normalise(_Command):
    """Normalise a scan to a reference (``ndflow normalise``).

    Examples
    --------
    >>> Normalise(image="scan.nii.gz", to="reference.json", range=(0, 1000)).cmdline
    'ndflow normalise scan.nii.gz --output scan_ndflow.nii.gz --range 0 1000 --to reference.json'
    """

    _cmd = "ndflow normalise"
    input_spec = _NormaliseInputs
    output_spec = _NormaliseOutputs

    def _gen_filename(self, name):
        return f"{stem(self.inputs.image)}_ndflow.nii.gz"

    def _list_outputs(self):
        image = self._written()
        return {"image": str(image), "sidecar": str(image.with_name(f"{stem(image)}.json"))}


def stem(image) -> str:
    """Return the name of an image without its ending."""
    name = Path(image).name
    return next((name.removesuffix(one) for one in ENDINGS if name.endswith(one)), name)


def normalising_workflow(scans, *, channel="T1w", name="ndflow", base_dir=None) -> Workflow:
    """Return a workflow that brings scans to their own average.

    Parameters
    ----------
    scans
        The files of all scans, by input: ``{"image": [...], "mask": [...]}``.
    channel
        The contrast of the images.
    name, base_dir
        Of the workflow.

    Returns
    -------
    Workflow
        Its node ``normalise`` has the outputs ``image`` and ``sidecar``, one for each scan; the
        node ``reference`` has the output ``reference``.
    """
    fit = MapNode(Fit(), list(scans), "fit")
    reference = Node(Reference(channel=channel), "reference")
    normalise = MapNode(Normalise(), list(scans), "normalise")
    for node in (fit, normalise):
        node.inputs.trait_set(**scans)
    workflow = Workflow(name, base_dir=base_dir)
    workflow.connect(fit, "mixture", reference, "sources")
    workflow.connect(reference, "reference", normalise, "to")
    return workflow


def read_table(table: Path) -> dict[str, list[str]]:
    """Return the files of all scans of a table, by input."""
    with table.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    scans = {}
    for column in (one for one in COLUMNS if one in rows[0]):
        given = [row[column] for row in rows if row[column] not in ("", "n/a")]
        if given and len(given) < len(rows):
            raise SystemExit(f"{table}: some scans have no {column}; give all of them, or none")
        if given:
            name = "exclude" if column == "lesion" else column
            scans[name] = [str((table.parent / one).absolute()) for one in given]
    return scans


def main() -> None:
    """Normalise the scans of a table."""
    parser = argparse.ArgumentParser(description="Normalise the scans of a table.")
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    typed = parser.parse_args()
    out = typed.out.absolute()
    workflow = normalising_workflow(read_table(typed.table), base_dir=str(out / "work"))
    results = Node(DataSink(base_directory=str(out), parameterization=False), "results")
    normalise, reference = map(workflow.get_node, ("normalise", "reference"))
    workflow.connect(normalise, "image", results, "images")
    workflow.connect(normalise, "sidecar", results, "images.@sidecar")
    workflow.connect(reference, "reference", results, "@reference")
    # A scan takes less than a second, so Nipype should look more often than every two seconds.
    workflow.config["execution"] = {"poll_sleep_duration": 0.2, "crashdump_dir": str(out / "work")}
    workflow.run("MultiProc", plugin_args={"n_procs": typed.processes})


if __name__ == "__main__":
    main()
