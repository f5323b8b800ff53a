"""Images: reading and writing NIfTI and MGH, masks, and orientation."""
