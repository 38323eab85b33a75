// The secular equation: eigenvalues of diag(lam) + rho w w' between the poles lam.
//
// The roots (Golub 1973; Bunch, Nielsen and Sorensen 1978) are those of f(x) = 1 / rho + sum_i w_i^2 / (lam_i - x), where i runs over
// the poles that are not deflated. They are kept as a pole and an offset, so that every lam_i - x has full relative accuracy. The
// innermost loops run over roots: they vectorise although no sum is reordered. Products of four differences are formed: the
// magnitudes of a spectrum should be between about 1e-60 and 1e60.
#pragma once
#include <tuple>

#include "base/views.hpp"

namespace bregmat {

struct EigenWork {  // described in arrays.py
    Vector<int64_t> keep, origin, counters;
    Vector<double> d, z, z2, offset, theta, omega, U;
    Matrix<double> rows, scratch, rows_of_projections;
    auto fields() {
        return std::tie(keep, origin, counters, d, z, z2, offset, theta, omega, U, rows, scratch, rows_of_projections);
    }
};

namespace secular {

constexpr double EPS = 2.220446049250313e-16, DEFLATION = 8.0 * EPS;  // times max |lam|, as in LAPACK's dlaed2

// Eigenvalues of diag(lam) + rho w w' into work; returns K, the number of poles that move. lam (n,), ascending, w (n,). Poles with
// w != 0 must differ: see rotate_ties_inplace. A pole stays where |rho w_i| |w| <= DEFLATION max(|lam|, |rho| |w|^2).
Index solve_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, double rho);

// secular_contract.cpp: sums over i of t_i = z2_i / D_i, of t_i / D_i and of t_i / D_i^2 with D_i = (d_i - pole) - mu, without the
// pole itself. The fourth row of sums (4, m) is about sum |t_i|: the signs of four neighbours differ only where the root is among
// them. d, z2 (K,), padded to a multiple of 4; roots (2, m): pole and mu.
void sums_inplace(Matrix<double> sums, Vector<const double> d, Vector<const double> z2, Matrix<const double> roots);

}  // namespace secular
}  // namespace bregmat
