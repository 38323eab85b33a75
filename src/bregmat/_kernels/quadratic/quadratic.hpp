#pragma once
#include "base/vectors.hpp"

namespace bregmat {

// The Cholesky factor of M = A_FF + rho E_F' E_F = U'U while variables join and leave the free set F, one at a time.
//
// U is the leading k x k block, k = |F|, of an array with room to grow: all loops run along its rows. W and S, M^-1 E_F' in rows and
// the factor S'S = E_F M^-1 E_F', are those of the last call of constrain_inplace.
struct Quadratic {
    Matrix<const double> A, E;
    Vector<const double> upper, weight;
    double rho;
    auto fields() { return std::tie(A, E, upper, weight, rho); }
};

struct FreeSet {
    Matrix<double> U, W, S;
    Vector<int64_t> order, position, size;
    auto fields() { return std::tie(U, W, S, order, position, size); }
    Vector<int64_t> variables() const { return order.slice(0, size[0]); }
};

namespace free_factor {

// out = (A + rho E'E)_{j F}; out and F (k,)
void entries_inplace(Vector<double> out, Vector<const int64_t> F, const Quadratic &problem, Index j);
// Upper triangle of (A + rho E'E)_FF; M (k, k)
void gather_upper_inplace(Matrix<double> M, Vector<const int64_t> F, const Quadratic &problem);
// Variable j joins; false, with nothing changed, where its pivot is at most `least` times its diagonal entry.
bool join_inplace(const FreeSet &free, const Quadratic &problem, Index j, double least);
// The variable at place p leaves: its row of the factor is rotated into the rows below it.
void leave_inplace(const FreeSet &free, Index p);
// Compute W and S; false where E_F lacks full row rank.
bool constrain_inplace(const FreeSet &free, const Quadratic &problem);
// Whether E_F would lack full row rank without the variable at place p.
bool is_needed(const FreeSet &free, Index p);
// M d + E_F' multiplier = rhs and E_F d = residual; d (k,) holds rhs, multiplier and residual (m,)
void constrained_solve_inplace(Vector<double> d, Vector<double> multiplier, Vector<const double> residual,
    const FreeSet &free, const Quadratic &problem);

}  // namespace free_factor

// Single exchanges of a primal active set: one variable enters at a time and moves with all free ones.
//
// Between calls the point is stationary on the free set F. Each step moves the entering variable j by t and the free ones by t z
// with A_FF z + E_F' mu = -A_Fj, E_F z = -E_j, which keeps it so.
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

// Coordinate descent on 1/2 x'Ax + b'x in the box 0 <= x <= upper, and what is asked of A before anything else.
// x, g = A x + b, upper (n,), A (n, n); x and g are changed.
namespace descent {

enum Inspection : int { FINE, NOT_FINITE, NOT_SYMMETRIC, NOT_DEFINITE };

// One coordinate after another, `relaxation` times the way to its minimum; the decrease of the objective and how many
// coordinates went to a bound or left one.
std::pair<double, Index> sweep_inplace(
    Vector<double> x, Vector<double> g, Matrix<const double> A, Vector<const double> upper, double relaxation);
// First reason why A is not finite, symmetric and positive semidefinite that its 2 x 2 minors show, with the entry.
std::tuple<int, Index, Index> inspect(Matrix<const double> A, double tol, double slack);

}  // namespace descent

// A+ v and A- v in one pass over a matrix.
//
// Threads may share a pass. It reads memory in few long streams: that, and not the arithmetic, limits its speed.
namespace tiles {

// p = A+ v, q = A- v for any square A (n, n) and v >= 0, each (n,): rows start ... stop - 1, start a multiple of 4.
void signed_pass_inplace(
    Vector<double> p, Vector<double> q, Matrix<const double> A, Vector<const double> v, Index start, Index stop);

}  // namespace tiles
}  // namespace bregmat
