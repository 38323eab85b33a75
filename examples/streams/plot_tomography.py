"""
=================================================
Estimate a quantum state from single measurements
=================================================

Quantum tomography estimates a density matrix, which is positive semidefinite with trace one, from measured expectations. The matrix
exponentiated gradient learner does so online: it processes one measurement at a time and does not store it. Its matrix is a valid state at
every moment, and a bound on its total loss is known before the first measurement.

The state here is a GHZ state of five qubits with a little white noise, so W is a complex 32 x 32 matrix.
"""

# %%
# Simulated measurements
# ----------------------
# A measurement picks one of the 1,024 Pauli strings at random and reports the mean of 20,000 outcomes of +1 and -1.

import matplotlib.pyplot as plt
import numpy as np

from bregmat.online import MatrixExponentiatedGradient

plt.style.use("bregmat.plots.bregmat")

rng = np.random.default_rng(20261120)
QUBITS, SHOTS, STEPS = 5, 20_000, 4_000
d = 2**QUBITS

ghz = np.zeros(d, complex)
ghz[[0, -1]] = np.sqrt(0.5), 1j * np.sqrt(0.5)
state = 0.995 * np.outer(ghz, ghz.conj()) + 0.005 * np.eye(d) / d

PAULIS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])


def measurement():
    """A Pauli string as a matrix, and its measured mean."""
    string = np.ones((1, 1))
    for letter in rng.integers(0, 4, QUBITS):
        string = np.kron(string, PAULIS[letter])
    mean = np.vdot(state, string).real
    return string, 2 * rng.binomial(SHOTS, np.clip((1 + mean) / 2, 0, 1)) / SHOTS - 1


def fidelity(A, B):
    """``(tr sqrt(sqrt(A) B sqrt(A)))^2``: 1 for equal states."""
    values, U = np.linalg.eigh(A)
    root = (U * np.sqrt(values.clip(0))) @ U.conj().T
    return np.sqrt(np.linalg.eigvalsh(root @ B @ root).clip(0)).sum() ** 2


# %%
# Learning
# --------
# The eigenvalues of a Pauli string are +1 and -1: its spectral spread is 2. Shot noise costs even the true state about
# STEPS / SHOTS in all; that is the loss budget, from which the learning rate follows.

learner = MatrixExponentiatedGradient(d, instances="matrices", spectral_spread=2.0, loss_budget=STEPS / SHOTS)
steps, fidelities, losses, bounds, loss_of_state = [], [], [], [], 0.0
for step in range(1, STEPS + 1):
    X, y = measurement()
    learner.learn_one(X, y)
    loss_of_state += (np.vdot(state, X).real - y) ** 2
    if step % 100 == 0:
        steps.append(step)
        fidelities.append(fidelity(state, learner.matrix()))
        losses.append(learner.cumulative_loss_)
        bounds.append(learner.loss_bound(state, loss_of_state))

reached = next((n for n, f in zip(steps, fidelities, strict=True) if f > 0.99), None)
print(
    f"learning rate {learner.eta_:.3f}, fidelity {fidelities[-1]:.4f} after {STEPS} steps, above 0.99 after {reached}"
)
print(f"total loss {losses[-1]:.3f}, bound {bounds[-1]:.3f}, loss of the true state {loss_of_state:.3f}")
assert reached is not None and fidelities[-1] > 0.99
assert all(loss <= bound for loss, bound in zip(losses, bounds, strict=True))

# %%
# Fidelity, and the loss under its bound
# --------------------------------------

# sphinx_gallery_thumbnail_panel = (1, 0)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.2))
left.plot(steps, 1 - np.array(fidelities), color="#0072B2")
left.axhline(0.01, color="#999999", linewidth=1)
left.set(yscale="log", xlabel="measurements", ylabel="1 - fidelity", title="distance from the true state")
middle.plot(steps, losses, color="#0072B2", label="learner")
middle.plot(steps, bounds, color="#D55E00", label="bound")
middle.set(xlabel="measurements", ylabel="total squared loss", ylim=(0, None), title="loss and its bound")
middle.legend(loc="center right")
for matrix, label, marker in ((learner.matrix(), "learned", "."), (state, "true", "_")):
    right.semilogy(np.arange(1, d + 1), np.linalg.eigvalsh(matrix)[::-1], marker, label=label)
right.set(xlabel="number", title="eigenvalues of the state")
right.legend()
plt.show()
