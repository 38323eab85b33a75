"""Messages of the library in terms of the command line: options instead of arguments."""

import re

__all__ = ["for_command", "for_labels", "of_file"]

_OPTIONS = {
    "slack_weight": "--slack-weight",
    "loss_budget": "--loss-budget",
    "max_iter": "--max-iter",
    "n_components": "--n-components",
    "n_constraints": "--n-constraints",
    "min_eig": "--min-eig",
    "random_state": "--seed",
    "scale=True": "--scale",
    "sample_id": "--id",
    "raise trace": "raise --trace",
}
# words that are options only at the beginning of a message
_FIRST_WORDS = (
    "dim",
    "divergence",
    "encoding",
    "eta",
    "loss",
    "missing",
    "prior",
    "solver",
    "strategy",
    "tol",
    "trace",
)
# advice that is about Python objects
_PHRASES = {
    "a row of result.conflict": "one of the rows named",
    'strategy="neighbors"': "--strategy neighbors",
    "; scale=False takes C as it is": "",
    "download=True": "--download",
    "missing='drop'": "--missing drop",
    "missing='median'": "--missing median",
    "encoding='cp1252'": "--encoding cp1252",
    ", (d) try another solver": "",
    " Continue with warm_start=result.": "",
    ", or continue with warm_start=result": "",
}


def for_command(text: str) -> str:
    """Replace arguments in a message of the library by options."""
    for phrase, own in _PHRASES.items():
        text = text.replace(phrase, own)
    for name, option in _OPTIONS.items():
        text = re.sub(rf"(?<![-\w]){name}(?=\W|$)", option, text)
    return re.sub(rf"^({'|'.join(_FIRST_WORDS)})(?= )", r"--\1", text)


def for_labels(text: str, name: str) -> str:
    """Replace `y` in a message of the library by the column of the labels."""
    text = re.sub(r" \(unlabeled=[^)]*\)", "", text)
    text = re.sub(r"\by\[(\d+)\] = ", r"row \1: ", text)
    text = text.replace("use Constraints.sq_distance(i, j, bound, sense)", "use --constraints with rows sq_distance")
    return for_command(re.sub(r"\by (?=must|holds|gives|contains|should)", f"labels {name!r} ", text, count=1))


def of_file(error: OSError) -> str:
    """Describe a file that cannot be opened."""
    if error.filename is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"{error.filename}: no such file"
    return f"{error.filename}: {(error.strerror or 'cannot be opened').lower()}"
