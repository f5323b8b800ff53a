"""The errors that a caller can act on.

Every message names the argument or the file, and says what is wrong with it and what to try.
"""


class NdflowError(Exception):
    """Base class of every error that ndflow raises deliberately."""


class InvalidValueError(NdflowError, ValueError):
    """An invalid argument, or a stored value that cannot be what it claims to be."""


class DegenerateDataError(NdflowError, ValueError):
    """Data from which no density can be estimated: no voxels, or voxels that are all equal."""


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
