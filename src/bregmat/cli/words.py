"""The library's messages in the words of the command line: options instead of arguments."""

import re
from typing import Any

from bregmat._html import name_of
from bregmat.result import ExitReason

__all__ = ["advice", "for_command", "for_labels", "of_file"]

_ADVICE = {
    "CERTIFICATE": "A proof of infeasibility was found: (a) drop or relax one of the rows named, (b) use a finite "
    "--slack-weight.",
    "MAX_ITER": "Raise --max-iter, or (a) standardise the features, (b) lower --slack-weight, (c) loosen --tol.",
    "STALLED": "No step improves the point: (a) standardise the features, (b) lower --slack-weight, (c) loosen --tol.",
    "INTERRUPTED": "Stopped on request; the best point so far is kept.",
}
_OPTIONS = {
    "slack_weight": "--slack-weight",
    "max_iter": "--max-iter",
    "n_components": "--n-components",
    "n_constraints": "--n-constraints",
    "random_state": "--seed",
    "sample_id": "--id",
    "resume=False": "--fresh",
}
_FIRST_WORDS = ("divergence", "prior", "tol")  # options where a message begins with them, else plain words


def advice(reason: Any) -> str:
    """What to change, for somebody at the command line."""
    return _ADVICE.get(name_of(reason), reason.advice)


def for_command(text: str) -> str:
    """A message of the library with options in place of its arguments."""
    for reason in ExitReason:
        text = text.replace(reason.advice, advice(reason))
    for name, option in _OPTIONS.items():
        text = re.sub(rf"(?<![-\w]){name}(?=\W|$)", option, text)
    return re.sub(rf"^({'|'.join(_FIRST_WORDS)})\b", r"--\1", text)


def for_labels(text: str, name: str) -> str:
    """A message about labels `y` with the column they came from."""
    text = re.sub(r" \(unlabeled=[^)]*\)", "", text)
    text = re.sub(r"\by\[(\d+)\] = ", r"row \1: ", text)
    text = text.replace("use Constraints.sq_distance(i, j, bound, sense)", "use --constraints with rows sq_distance")
    return for_command(re.sub(r"\by (?=must|holds|gives|contains|should)", f"labels {name!r} ", text, count=1))


def of_file(error: OSError) -> str:
    """A file that cannot be opened: its name and what is wrong."""
    if error.filename is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}: no such file"
    return f"{error.filename}: {(error.strerror or 'cannot be opened').lower()}"
