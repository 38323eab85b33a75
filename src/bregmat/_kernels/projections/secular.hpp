// The secular equation: eigenvalues of diag(lam) + rho w w' between the poles lam.
//
// The roots (Golub 1973; Bunch, Nielsen and Sorensen 1978; i runs over the poles that are not deflated) are those of
//     f(x) = 1 / rho + sum_i w_i^2 / (lam_i - x) = 0.
// They are kept as a pole and an offset, so that every difference lam_i - x has full relative accuracy. All roots move together:
// the innermost loops run over roots, so that they vectorise although no sum is reordered. Products of four differences are
// formed: the magnitudes of a spectrum should be between about 1e-60 and 1e60.
#pragma once
#include <tuple>

#include "base/views.hpp"

namespace bregmat {

// Work arrays; arrays.py describes them.
struct EigenWork {
    Vector<int64_t> keep;
    Vector<double> d, z, z2;
    Vector<int64_t> origin;
    Vector<double> offset, theta, omega, U;
    Matrix<double> rows, scratch;
    Vector<int64_t> counters;
    Matrix<double> rows_of_projections;
    auto fields() {
        return std::tie(keep, d, z, z2, origin, offset, theta, omega, U, rows, scratch, counters, rows_of_projections);
    }
};

namespace secular {

constexpr double EPS = 2.220446049250313e-16;
constexpr double DEFLATION = 8.0 * EPS;  // times max |lam|, as in LAPACK's dlaed2
constexpr Index PAD = 16;                // PAD of arrays.py

// Eigenvalues of diag(lam) + rho w w' into work; returns K, the number of poles that move. lam (n,), ascending, w (n,). Poles with
// w != 0 must differ: see rotate_ties_inplace. A pole stays where |rho w_i| |w| <= DEFLATION max(|lam|, |rho| |w|^2).
Index solve_inplace(const EigenWork &work, Vector<const double> lam, Vector<const double> w, double rho);

// secular_contract.cpp: sums over i of t_i = z2_i / D_i, t_i / D_i and t_i / D_i^2 with D_i = (d_i - pole) - mu, without the pole
// itself. size is about sum |t_i|: the signs of four neighbours differ only where the root is among them. K is rounded up to a
// multiple of 4. d, z2 (K,), padded; all others (m,).
void sums_inplace(Vector<double> s1, Vector<double> s2, Vector<double> s3, Vector<double> size, Vector<const double> d,
                  Vector<const double> z2, Vector<const double> pole, Vector<const double> mu, Index K, Index m);

}  // namespace secular
}  // namespace bregmat
