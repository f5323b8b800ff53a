"""What each tool does in a process of its own: read all files, write as many float32 .nii.gz.

    python rival_runs.py NAME [OUT FILE... [--masks MASK...] [--reference R] [--table T]]

Without OUT, only the imports are tried. The last line of the output is JSON: the version, CPU
seconds of the work without any imports, CPU seconds of what is not part of the comparison, and the
peak memory.

A run is a generator whose parts alternate: up to the first `yield` it imports, then it works; what
follows the second one is not counted, after the third it works again, and so on. Each tool is used
as its documentation shows; where there is a choice, the one that favours the tool is taken. Voxels
outside the foreground are written too, mapped where the tool maps them and unchanged where it does
not, so that all have about the same amount to compress.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import resource
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path


def intensity_normalization(job: Namespace) -> Iterator[None]:
    # Its default foreground is all positive voxels, unless there are masks. The list of images, as
    # in its manual, keeps what nibabel has read. Results are saved one by one, and as float32,
    # because the header is still that of the input.
    import numpy as np
    from intensity_normalization import NyulNormalizer
    from intensity_normalization.adapters.images import create_image

    yield
    images = [create_image(file) for file in job.files]
    masks = [create_image(file) for file in job.masks] or [None] * len(images)
    nyul = NyulNormalizer()
    nyul.fit_population(images, masks)
    for image, mask, file in zip(images, masks, job.files, strict=True):
        result = nyul.transform(image, mask)
        result.header.set_data_dtype(np.float32)
        result.save(job.out / file.name)


def torchio(job: Namespace) -> Iterator[None]:
    # Its manual asks for a mask, or a function that makes one, for training and application.
    import torchio as tio

    yield
    paths = [str(file) for file in job.files]
    if job.masks:
        seen = {"mask_path": [str(file) for file in job.masks]}
    else:
        seen = {"masking_function": lambda image: (image > 0).numpy()}
    landmarks = tio.HistogramStandardization.train(paths, progress=False, **seen)
    transform = tio.HistogramStandardization(
        {"scan": landmarks}, masking_method="mask" if job.masks else lambda image: image > 0
    )
    for number, file in enumerate(job.files):
        images = {"scan": tio.ScalarImage(file)}
        if job.masks:
            images["mask"] = tio.LabelMap(job.masks[number])
        transform(tio.Subject(**images)).scan.save(job.out / file.name)


def medpy(job: Namespace) -> Iterator[None]:
    # It must see the foreground alone: the mask, or what is positive, as in its own script. That
    # writes back into the integers of the scan, which would round the result; here, into float32.
    import numpy as np
    from medpy.filter import IntensityRangeStandardization
    from medpy.io import load, save

    yield
    scans = [load(str(file)) for file in job.files]
    if job.masks:
        masks = [load(str(file))[0].astype(bool) for file in job.masks]
    else:
        masks = [image > 0 for image, _ in scans]
    model = IntensityRangeStandardization()
    model.train([image[mask] for (image, _), mask in zip(scans, masks, strict=True)])
    for (image, header), mask, file in zip(scans, masks, job.files, strict=True):
        result = image.astype(np.float32)
        result[mask] = model.transform(image[mask])
        save(result, str(job.out / file.name), header)


def simpleitk(job: Namespace) -> Iterator[None]:
    # It takes no mask; its manual's way to leave the background out is the threshold at the mean.
    import SimpleITK as sitk  # noqa: N813

    yield
    target = sitk.ReadImage(str(job.files[0]), sitk.sitkFloat32)
    for file in job.files:
        image = sitk.ReadImage(str(file), sitk.sitkFloat32)
        result = sitk.HistogramMatching(image, target, 1024, 7, True)
        sitk.WriteImage(result, str(job.out / file.name), useCompression=True)


def scikit_image(job: Namespace) -> Iterator[None]:
    # It takes no mask, but arrays of any shape: it gets the voxels of the foreground, as unsigned
    # integers (none is negative), for which it has a faster way.
    import nibabel as nib
    import numpy as np
    from skimage.exposure import match_histograms

    def load(number: int) -> tuple[nib.Nifti1Image, np.ndarray, np.ndarray]:
        image = nib.load(job.files[number])
        voxels = np.asarray(image.dataobj)
        mask = np.asarray(nib.load(job.masks[number]).dataobj) if job.masks else voxels
        return image, voxels, mask > 0

    yield
    _, voxels, mask = load(0)
    target = voxels[mask].astype(np.uint16)
    for number, file in enumerate(job.files):
        image, voxels, mask = load(number)
        result = voxels.astype(np.float32)
        result[mask] = match_histograms(voxels[mask].astype(np.uint16), target)
        nib.save(nib.Nifti1Image(result, image.affine), job.out / file.name)


def ndflow(job: Namespace, *words: object) -> Iterator[None]:
    from ndflow.cli import main

    yield
    sys.argv = ["ndflow", *map(str, words), "-j", "1", "-q"]
    if code := main():
        raise SystemExit(code)


def ndflow_reference(job: Namespace) -> Iterator[None]:
    yield from ndflow(job, "reference", *job.files, *masks_of(job), "-o", job.reference)


def ndflow_normalise(job: Namespace) -> Iterator[None]:
    words = (*job.files, *masks_of(job), "--to", job.reference, "-o", job.out)
    yield from ndflow(job, "normalise", *words)


def ndflow_cohort(job: Namespace) -> Iterator[None]:
    yield from ndflow(job, "cohort", job.table, job.out)


def masks_of(job: Namespace) -> list[object]:
    return ["--mask", *job.masks] if job.masks else []


def floor(job: Namespace) -> Iterator[None]:
    # What is written instead of the scan is read before the clock starts.
    from isal import igzip

    yield
    yield
    for number, file in enumerate(job.files):
        ready = job.raw[number].read_bytes() if job.raw else None
        yield
        with igzip.open(file) as packed:
            content = packed.read()
        with igzip.open(job.out / file.name, "wb", compresslevel=2) as packed:
            packed.write(ready or content)
        yield


RUNS: dict[str, tuple[str, Callable[[Namespace], Iterator[None]]]] = {
    "floor": ("isal", floor),
    "floor-int16": ("isal", floor),
    "ndflow-reference": ("ndflow", ndflow_reference),
    "ndflow-normalise": ("ndflow", ndflow_normalise),
    "ndflow-cohort": ("ndflow", ndflow_cohort),
    "intensity-normalization": ("intensity-normalization", intensity_normalization),
    "torchio": ("torchio", torchio),
    "medpy": ("medpy", medpy),
    "simpleitk": ("SimpleITK", simpleitk),
    "scikit-image": ("scikit-image", scikit_image),
}


def peak() -> float:
    """Return the peak memory in megabytes; on Linux, getrusage may report the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # bytes, on macOS


def clock_without_imports() -> Callable[[], float]:
    """Return a clock of CPU seconds that stands still while the main thread imports modules.

    Some tools import most modules only when they are called, so importing them first is not enough.
    Python's own ``-X importtime`` hooks into the same place.
    """
    bootstrap, home = importlib._bootstrap, threading.get_ident()
    load, spent, depth = bootstrap._find_and_load, 0.0, 0

    def timed(*arguments: object) -> object:
        nonlocal spent, depth
        if threading.get_ident() != home:
            return load(*arguments)
        begin, depth = time.thread_time(), depth + 1
        try:
            return load(*arguments)
        finally:
            depth -= 1
            if not depth:
                spent += time.thread_time() - begin

    bootstrap._find_and_load = timed
    return lambda: time.process_time() - spent


def main() -> None:
    clock = clock_without_imports()
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    for option in ("--masks", "--raw"):
        parser.add_argument(option, nargs="*", type=Path, default=[])
    for option in ("--reference", "--table"):
        parser.add_argument(option, type=Path)
    job = parser.parse_args()
    distribution, run = RUNS[job.name]
    parts = run(job)
    times = [clock()]
    for _ in parts:
        times.append(clock())
        if not job.out:
            break
    times.append(clock())
    spans = [end - start for start, end in pairwise(times)]
    report = {"work": sum(spans[1::2]), "aside": sum(spans[2::2]), "peak": peak()}
    print(json.dumps({"version": version(distribution), **report}))


if __name__ == "__main__":
    main()
