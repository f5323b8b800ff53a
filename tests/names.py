"""Names that subjects and sites may have, and that no path must be made of."""

ODD = [
    "../x",
    "..",
    "/etc/x",
    "a/b\\c",
    "a b",
    "Zürich 脳",
    "100%",
    "new\nline",
    ".ndflow-x.tmp",
    "*",
]
