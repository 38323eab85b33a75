"""The long sums over rows on a GPU, against what its memory and its arithmetic were measured to do in the same run.

    python benchmarks/bench_gpu.py                     # r = 100 to 1,000, 1e5 to 1e7 pairs; says so where no GPU is found
    python benchmarks/bench_gpu.py --device cpu --rank 20 --pairs 1e4 --points 1e3   # tries the code without one

Ceilings: bytes a second of a copy within the card's memory, operations a second of a product of two matrices. Of a sum over c pairs of n
points in r dimensions what is counted is the least that it must do, whatever the code does: vectors of two points of every pair are read
(and of their images, in a product), and 2 c r^2 operations of ``V' diag(w) V`` and 2 n r^2 of an image are done.
Then a whole problem with tensors beside the same on the host, status and gap beside the seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import harness
import numpy as np

from bregmat import nearest_metric
from bregmat.base import arrays as library
from bregmat.base.arrays import ArraySpace, array_space
from bregmat.operators import foreign as array_operators
from bregmat.operators.foreign import ArrayRows

COPY_BYTES = {"cuda": 2**31, "cpu": 2**26}
PRODUCT_ORDER = {"cuda": 8192, "cpu": 512}


def clock(call: Callable[[], Any], wait: Callable[[], Any], at_least: float) -> float:
    """Seconds of a call, the best of those that fit the time, after one that is not counted."""
    call()
    wait()
    best, start = np.inf, time.perf_counter()
    while time.perf_counter() - start < at_least or best == np.inf:
        before = time.perf_counter()
        call()
        wait()
        best = min(best, time.perf_counter() - before)
    return best


def ceilings(torch: Any, device: Any, seconds_of: Callable[[Callable[[], Any]], float]) -> dict[str, float]:
    """Bytes a second of a copy (read and written), and operations a second of a product by precision."""
    source = torch.ones(COPY_BYTES[device.type] // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    rates = {"copy": 2.0 * COPY_BYTES[device.type] / seconds_of(lambda: target.copy_(source))}
    order = PRODUCT_ORDER[device.type]
    for name in ("float32", "float64"):
        A = torch.ones((order, order), dtype=getattr(torch, name), device=device)
        out = torch.empty_like(A)
        rates[name] = 2.0 * order**3 / seconds_of(partial(torch.mm, A, A, out=out))
    return rates


def sums(op: ArrayRows, n: int, name: str) -> dict[str, tuple[Callable[[], Any], float, float]]:
    """Each sum over rows: the call, the bytes that it must move and the operations that it must do."""
    c, r, width = op.c, op.r, np.dtype(name).itemsize
    rng = np.random.default_rng(1)
    w, X = rng.uniform(0.5, 1.5, c).astype(name), np.eye(r) + 0.01 * rng.normal(size=(r, r))
    weighted = op.weighted(w)
    vectors, image, column = 2.0 * width * c * r + 16.0 * c, 2.0 * n * r * r, float(width * c)
    return {
        "X -> A*(h . A(X))": (lambda: weighted(X), 2.0 * vectors - 16.0 * c + column, 2.0 * c * r * r + image),
        "A(I), to the host": (lambda: op.values_diagonal(None), vectors + column, 3.0 * c * r),
        "A*(w), from the host": (lambda: op.adjoint(w), vectors + column, 2.0 * c * r * r),
        "congruence": (lambda: op.congruence(X), 2.0 * width * n * r, image),
    }


def measured(
    space: ArraySpace, n: int, r: int, c: int, seconds_of: Callable[[Callable[[], Any]], float], rates: dict[str, float]
) -> list[list[Any]]:
    """A line for each sum over rows and precision."""
    rng = np.random.default_rng(0)
    a = rng.integers(n, size=c)
    b = (a + 1 + rng.integers(n - 1, size=c)) % n
    double = ArrayRows(space, space.put(rng.normal(size=(n, r))), (space.put(a), space.put(b), None))
    lines = []
    for name, op in (("float32", double.astype(np.float32)), ("float64", double)):
        for what, (call, moved, done) in sums(op, n, name).items():
            seconds = seconds_of(call)
            of_copy, of_product = moved / seconds / rates["copy"], done / seconds / rates[name]
            bytes_text = f"{moved / seconds / 1e9:,.1f} GB/s ({of_copy:.0%})"
            work_text = f"{done / seconds / 1e12:,.3f} TFLOP/s ({of_product:.0%})"
            binds = f"{'memory' if of_copy > of_product else 'arithmetic'} {max(of_copy, of_product):.0%}"
            lines.append([f"{r}, {c:,}", name, what, f"{1e3 * seconds:.2f} ms", bytes_text, work_text, binds])
    return lines


def whole(torch: Any, device: Any, n: int, r: int, c: int) -> list[list[Any]]:
    """A problem with slack on the host and there."""
    problem = harness.clusters(c, n, r)
    rows, lines = problem.constraints(), []
    for place, X in (("host, NumPy", problem.X), (str(device), torch.as_tensor(problem.X, device=device))):
        before = time.perf_counter()
        result = nearest_metric(X, rows, slack_weight=1.0, tol=1e-6)
        took = time.perf_counter() - before
        lines.append(
            [
                f"{r}, {c:,}",
                place,
                f"{took:.2f} s",
                result.n_iter,
                result.status.name,
                f"{result.gap:.1e}",
                f"{result.objective:.10g}",
            ]
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ... or cpu, which only tries the code")
    parser.add_argument("--rank", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--pairs", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument("--points", type=float, default=1e5)
    parser.add_argument(
        "--block", type=float, default=array_operators.BLOCK, help="numbers in the vectors formed at a time"
    )
    parser.add_argument("--at-least", type=float, default=0.5, help="seconds for each figure")
    parser.add_argument(
        "--host-pairs", type=float, default=1e6, help="most pairs of the problems that are solved on the host, too"
    )
    args = parser.parse_args()
    array_operators.BLOCK = int(args.block)
    print(harness.machine())
    try:
        import torch
    except ImportError:
        print("no GPU found: torch is not installed (pip install 'bregmat[gpu]'). Nothing was measured.")
        return
    if args.device != "cpu" and not torch.cuda.is_available():
        print(f"no GPU found by torch {torch.__version__}. Nothing was measured; --device cpu tries the code.")
        return
    device = torch.device(args.device)
    is_gpu = device.type == "cuda"
    if not is_gpu:
        library._is_on_host = lambda x: False  # else tensors that NumPy can read are read by NumPy
    wait = torch.cuda.synchronize if is_gpu else lambda: None
    name = (
        torch.cuda.get_device_name(device)
        if is_gpu
        else f"no GPU: torch on {torch.get_num_threads()} threads of this processor"
    )

    def seconds_of(call: Callable[[], Any]) -> float:
        return clock(call, wait, args.at_least)

    rates = ceilings(torch, device, seconds_of)
    print(f"{name}, torch {torch.__version__}, {int(args.points):,} points")
    print(
        f"ceilings: copy {rates['copy'] / 1e9:,.1f} GB/s, products {rates['float32'] / 1e12:,.3f} TFLOP/s in float32, "
        f"{rates['float64'] / 1e12:,.3f} in float64"
    )
    space = array_space(torch.zeros(1, device=device))
    assert space is not None
    lines, solved = [], []
    for r in args.rank:
        for c in args.pairs:
            lines += measured(space, int(args.points), r, int(c), seconds_of, rates)
            if c <= args.host_pairs:
                solved += whole(torch, device, int(args.points), r, int(c))
    header = ["r, pairs", "precision", "sum", "time", "bytes, of the copy", "operations, of the product", "what binds"]
    harness.print_table("Sums over rows, least bytes and operations", header, lines)
    harness.print_table(
        "Whole problems, LogDet, slack weight 1",
        ["r, pairs", "points", "time", "steps", "status", "gap", "objective"],
        solved,
    )
    if is_gpu:
        print(f"largest memory of the card in use: {torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB")


if __name__ == "__main__":
    harness.steady(main)
