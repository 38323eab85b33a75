"""Check the search index of a built site: each word that a newcomer searches for finds a section title of the page that answers."""

import json
import sys
from pathlib import Path

ANSWERS = {  # word -> the page that has to be among the titles found
    "embeddings": "guide/embeddings",
    "few-shot": "guide/embeddings",
    "retrieval": "guide/embeddings",
    "faiss": "guide/recipes",
    "torch": "guide/embeddings",
    "UMAP": "guide/recipes",
    "ONNX": "guide/recipes",
    "LMNN": "migration",
    "NCA": "migration",
    "ITML": "migration",
    "correlation": "guide/correlation",
    "GPU": "scaling",
}


def not_found(site: Path) -> list[str]:
    """The words whose page is not among the section titles that contain them.

    Parameters
    ----------
    site : Path
        The folder of the built site, with Sphinx's ``searchindex.js``.
    """
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    found = {
        word: {
            index["docnames"][page]
            for title, places in index["alltitles"].items()
            if word.lower() in title.lower()  # the rule of Sphinx's searchtools.js
            for page, _ in places
        }
        for word in ANSWERS
    }
    return [f"{word}: {page} is not found, but {sorted(found[word])}" for word, page in ANSWERS.items() if page not in found[word]]


if __name__ == "__main__":
    lines = not_found(Path(sys.argv[1]))
    print(*lines, sep="\n", end="\n" if lines else "")
    print(f"{len(ANSWERS) - len(lines)} of {len(ANSWERS)} words find the page that answers")
    sys.exit(bool(lines))
