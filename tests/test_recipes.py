"""The recipes of docs/guide/recipes.md are run, each if its libraries are installed; the others are compiled only, and count as passed."""

import ast
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "guide" / "recipes.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (.*?)$.*?^```py\n(.*?)^```$", PAGE, re.M | re.S))
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # warnings of the other libraries


@pytest.fixture(scope="module")
def start():
    """What the first block of the page defines."""
    names = {}
    exec(re.search(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)[1], names)
    return names


def imported(code):
    """The packages that a recipe imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.partition(".")[0]


def small_model(texts, folder):
    """A folder with a model of sentence-transformers: the mean of random vectors of words."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["?"]))
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=32)], device="cpu").save(str(folder))
    return str(folder)


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe(recipe, start, tmp_path, monkeypatch):
    code = RECIPES[recipe]
    compiled = compile(code, recipe, "exec")
    if any(importlib.util.find_spec(package) is None for package in imported(code)):
        return
    monkeypatch.chdir(tmp_path)
    names = dict(start)
    if "sentence_transformers" in code:
        names["name"] = small_model(names["texts"], tmp_path / "model")
    exec(compiled, names)
    learner, E, Z = names["learner"], names["E"], names["Z"]
    if "learned" in names:
        assert np.allclose(names["learned"], learner.transform(names["vectors"]), atol=1e-4)
    if "mapped" in names:
        assert np.allclose(names["mapped"], Z, atol=1e-4)
    if "sq_distances" in names:
        assert names["rows"].shape == (5, 10) and np.mean(names["rows"][:, 0] == np.arange(5)) > 0.5
    if "accuracy" in names:
        assert names["accuracy"] > 0.3
    if "again" in names:
        assert np.array_equal(names["again"].predict(E), names["model"].predict(E))
