"""The errors a caller can act on.

Every message names the argument or the file, says what is wrong with it, and what to try.
"""

__all__ = ["DegenerateDataError", "FileError", "InvalidValueError", "NdflowError"]


class NdflowError(Exception):
    """Base of every error that ndflow raises on purpose."""


class InvalidValueError(NdflowError, ValueError):
    """An argument or a stored value that cannot be what it claims to be."""


class DegenerateDataError(NdflowError, ValueError):
    """Data without a density to speak of: no voxel at all, or all of them equal."""


class FileError(NdflowError):
    """A file that cannot be read or written as asked.

    Attributes
    ----------
    path : the file.
    cause : what is wrong with it.
    hint : what to try.
    """

    def __init__(self, path: object, cause: str, hint: str = "") -> None:
        self.path, self.cause, self.hint = str(path), cause, hint
        super().__init__(f"{self.path}: {cause}" + (f"; {hint}" if hint else ""))
