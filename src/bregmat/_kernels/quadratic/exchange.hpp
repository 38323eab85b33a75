// Single exchanges of a primal active set: one variable enters at a time and moves with all free ones.
//
// Between calls the point is stationary on the free set F. Each step moves the entering variable j by t and the free ones by t z
// with A_FF z + E_F' mu = -A_Fj, E_F z = -E_j, which keeps it so.
#pragma once
#include "quadratic/free_factor.hpp"

namespace bregmat {

struct RunPoint {
    Vector<double> x, g, multiplier;
    Vector<const double> target;
    auto fields() { return std::tie(x, g, multiplier, target); }
};

namespace exchange {

// DEFICIENT: E_F lacks full row rank; FULL: there is no room to join; the last two: along `direction`.
enum Outcome : int { OPTIMAL, DEFICIENT, FULL, PAUSED, UNBOUNDED, INDEFINITE };
// Enter the most violated variable until none is violated by more than tol times sqrt(A_jj), or `most` times; the Outcome.
// counts (1,): steps taken. direction (n,): if it comes in as 0, it keeps the first step that only rounding can have ended.
int run_inplace(const RunPoint &place, Vector<double> direction, Vector<int64_t> counts, const FreeSet &free,
                const Quadratic &problem, double tol, Index most);

}  // namespace exchange
}  // namespace bregmat
