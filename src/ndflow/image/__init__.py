"""Images: reading NIfTI and MGH, writing NIfTI, masks, and orientation."""
