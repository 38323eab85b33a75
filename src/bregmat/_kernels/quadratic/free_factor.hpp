// The Cholesky factor of M = A_FF + rho E_F' E_F = U'U while variables join and leave the free set F, one at a time.
//
// U is the leading k x k block, k = |F|, of an array with room to grow: all loops run along its rows. W and S, M^-1 E_F' in rows and
// the factor S'S = E_F M^-1 E_F', are those of the last call of constrain_inplace.
#pragma once
#include <tuple>

#include "base/views.hpp"

namespace bregmat {

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
// |U d|^2, the curvature along d (k,)
double squared_length(Matrix<const double> U, Vector<const double> d);
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
// x <- clip(x - mu row, 0, upper) with row . x = total, mu by bisection to the last digit; all (n,), row is not 0. Where the box
// does not allow that total, the point of the box nearest to it along the way.
void onto_row_inplace(Vector<double> x, Vector<const double> row, double total, Vector<const double> upper);

}  // namespace free_factor
}  // namespace bregmat
