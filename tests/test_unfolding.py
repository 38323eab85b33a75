"""Unfolding: flat data, curves, graphs that fall apart or have short cuts, files, verification."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import bregmat
from bregmat import Factor, Status, nearest_kernel, unfold, verify
from bregmat.applications.unfolding.unfold import neighbour_pairs

DIVERGENCES = ("logdet", "vonneumann", "frobenius")


def flat(rng, n, d=4):
    """Points of a plane in d dimensions."""
    return rng.normal(size=(n, 2)) @ np.linalg.qr(rng.normal(size=(d, 2)))[0].T


def flat_problem(seed):
    """Points and a number of neighbours whose graph is connected."""
    rng = np.random.default_rng(seed)
    while True:
        n, k = int(rng.integers(8, 30)), int(rng.integers(3, 7))
        X = flat(rng, n, int(rng.integers(2, 8)))
        try:
            neighbour_pairs(X, k)
        except ValueError:
            continue
        return X, k


def solved(X, k, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # edges in no triangle of a sparse graph
        return unfold(X, n_neighbors=k, **options)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", [{"divergence": name} for name in DIVERGENCES] + [{"objective": "variance"}])
def test_flat_data(seed, options):
    X, k = flat_problem(seed)
    result = solved(X, k, **options)
    assert result.status is Status.OPTIMAL
    K = result.kernel()
    sq = np.diag(K)[:, None] + np.diag(K) - 2 * K
    apart = ((X[:, None] - X) ** 2).sum(axis=2)[tuple(result.pairs.T)]
    np.testing.assert_allclose(sq[tuple(result.pairs.T)], apart, rtol=1.01 * result.rtol)
    np.testing.assert_allclose(K.sum(axis=0), 0, atol=1e-9 * np.abs(K).max())
    np.testing.assert_allclose(
        result.spectrum, np.linalg.eigvalsh(K)[::-1][: len(result.spectrum)], atol=1e-9 * K.max()
    )


@pytest.mark.slow
def test_at_least_38_of_40_flat_problems_are_optimal():
    options = [{"divergence": name} for name in DIVERGENCES] + [{"objective": "variance"}]
    results = [solved(*flat_problem(seed), **given) for seed in range(10) for given in options]
    assert sum(result.status is Status.OPTIMAL for result in results) >= 38


def test_the_plane_comes_back(rng):
    """Enough neighbours make a plane rigid: two dimensions, and all distances."""
    X = flat(rng, 25)
    for options in ({"objective": "variance"}, {"divergence": "frobenius"}, {"rtol": 0.0, "objective": "variance"}):
        result = solved(X, 10, **options)
        assert result.status is Status.OPTIMAL
        apart = np.linalg.norm(X[:, None] - X, axis=2)
        found = np.linalg.norm(result.embedding[:, None] - result.embedding, axis=2)
        np.testing.assert_allclose(found, apart, atol=0.01 * apart.max())


def test_an_arc_is_straightened():
    angle = np.linspace(0.0, 4.0, 15)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    result = unfold(X, n_neighbors=2, n_components=1, objective="variance")
    place = result.embedding[:, 0]
    assert abs(np.corrcoef(place, angle)[0, 1]) > 0.999
    assert result.spectrum[0] > 0.99 * result.spectrum.sum()


def test_it_is_the_nearest_kernel_of_the_stated_problem(rng):
    X = flat(rng, 12)
    result = solved(X, 5)
    N = np.linalg.svd(np.eye(12) - 1 / 12)[0][:, :11]
    other = nearest_kernel(Factor(np.sqrt(result.prior_scale) * N), result.constraints)
    assert other.status is Status.OPTIMAL
    np.testing.assert_allclose(result.objective, other.objective, rtol=1e-5)


def test_noise_asks_for_slack(rng):
    angle = np.linspace(0.0, 4.0, 20)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(scale=0.02, size=(20, 2))
    hard, soft = solved(X, 4, objective="variance"), solved(X, 4, objective="variance", slack_weight=1.0)
    assert hard.status is soft.status is Status.OPTIMAL
    assert soft.spectrum[0] / soft.spectrum.sum() > hard.spectrum[0] / hard.spectrum.sum()


# -------------------------------------------------------------------- graphs
def test_separate_parts_raise(rng):
    X = np.concatenate([rng.normal(size=(10, 3)), 100.0 + rng.normal(size=(12, 3))])
    with pytest.raises(ValueError, match=r"2 separate parts, of 12, 10 points.*Raise n_neighbors"):
        unfold(X, n_neighbors=4)


def test_short_cuts_warn():
    """A ring that is nearly closed: its ends are neighbours, but not among the three nearest."""
    angle = np.linspace(0.0, 2 * np.pi * (1 - 3.5 / 43), 40)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    text = r"1 edges of the neighbourhood graph look like short cuts between layers: points 0 and 39.*Lower n_neighbors"
    with pytest.warns(UserWarning, match=text):
        unfold(X, n_neighbors=4, max_iter=1)


@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-9])
@pytest.mark.parametrize("options", [{"divergence": name} for name in DIVERGENCES] + [{"objective": "variance"}])
def test_repeated_points_are_joined(rng, options, apart):
    """Enough neighbours make a plane rigid, so that all distances are known; a repeated point changes none of them."""
    X = flat(rng, 14)
    X = np.concatenate([X[:5], X[[9, 2]] * (1.0 + apart), X[5:], X[[2]]])
    result = solved(X, 8, **options)
    assert result.status is Status.OPTIMAL
    K = result.kernel()
    found = np.diag(K)[:, None] + np.diag(K) - 2 * K
    known = ((X[:, None] - X) ** 2).sum(axis=2)
    if options != {"divergence": "logdet"}:  # which spreads what rtol leaves over all dimensions
        np.testing.assert_allclose(found, known, atol=0.02 * known.max())
    np.testing.assert_allclose(found[tuple(result.pairs.T)], known[tuple(result.pairs.T)], rtol=1.01 * result.rtol)
    np.testing.assert_allclose(result.factor[[5, 6, 16]], result.factor[[11, 2, 2]], atol=1e-9 * K.max())
    np.testing.assert_allclose(K.sum(axis=0), 0, atol=1e-9 * np.abs(K).max())
    arguments = {"X": X, "n_neighbors": 8} | options
    found = verify(result, **arguments)
    assert found.holds, found
    moved = result.factor.copy()
    moved[[2, 3]] = moved[[3, 2]]
    assert not verify(replace(result, factor=moved), **arguments).holds


def test_one_repeated_point_of_few():
    """Points that are all the same but one leave too few different ones."""
    X = np.concatenate([np.zeros((5, 2)), np.ones((1, 2)), np.full((1, 2), 2.0)])
    with pytest.raises(ValueError, match="n_neighbors must be below the number of different points, 3; got 6"):
        unfold(X)
    result = solved(X, 1, n_components=1, objective="variance")
    assert result.status is Status.OPTIMAL
    np.testing.assert_allclose(np.abs(np.diff(result.embedding[4:, 0])), np.sqrt(2.0), rtol=1e-3)


def test_bad_arguments(rng):
    X = flat(rng, 8)
    for options, text in (
        ({"n_neighbors": 8}, "n_neighbors must be below the number of points, 8"),
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"rtol": -1.0}, "rtol must be"),
        ({"objective": "trace"}, "objective must be"),
        ({"prior_scale": 0.0}, "prior_scale must be"),
    ):
        with pytest.raises(ValueError, match=text):
            unfold(X, **{"n_neighbors": 5} | options)


# -------------------------------------------------------------------- results
@pytest.mark.parametrize("options", [{}, {"objective": "variance"}, {"slack_weight": 1.0}])
def test_verification_and_files(rng, tmp_path, options):
    X = flat(rng, 14)
    arguments = {"X": X, "n_neighbors": 6} | options
    result = solved(X, 6, **options)
    bregmat.save(tmp_path / "unfolded.bm", result)
    again = bregmat.load(tmp_path / "unfolded.bm")
    np.testing.assert_array_equal(again.embedding, result.embedding)
    for one in (result, again):
        found = verify(one, **arguments)
        assert found.holds, found
    assert verify(replace(result, call=None)).verdict == "not recomputed"
    for name, value in {
        "factor": 1.001 * result.factor,
        "dual": 0.5 * result.dual,
        "objective": result.objective - 0.1 * abs(result.objective),
        "dual_bound": result.dual_bound + 0.1 * abs(result.objective),
        "values": 1.1 * result.values,
        "pairs": result.pairs[:-1],
        "sq_distances": 1.01 * result.sq_distances,
        "prior_scale": 2.0 * result.prior_scale + 1.0,
        "rtol": 0.1,
        "n_components": 3,
        "violation": result.violation + 0.1,
        "status": Status.INFEASIBLE,
    }.items():
        assert not verify(replace(result, **{name: value}), **arguments).holds, name
    assert not verify(replace(result, factor=result.factor[:, ::-1]), **arguments).holds
    assert not verify(result, **(arguments | {"n_neighbors": 5})).holds
