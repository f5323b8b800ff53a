"""Images in and out: NIfTI and MGH, masks, and the grid they lie on."""
