// Steps onto one linear row for the relative entropy of vectors, in log space.
#pragma once
#include <utility>

#include "base/views.hpp"

namespace bregmat::simplex {

// log(constant + sum_k w_k exp(u_k - t a_k)) over w_k > 0 and its derivative in t; (-inf, 0) if that is empty; u, a, w (n,).
std::pair<double, double> log_side(Vector<const double> u, Vector<const double> a, Vector<const double> w,
                                   double constant, double t);

// Zero t of log(up side) - log(down side), which falls in t, and the number of evaluations; +-inf where a side is empty.
//
// Newton's method on the difference of logarithms, which is nearly linear in t unless one entry outweighs all others on both
// sides. There it is flat, and steps of limited length and bisection take over. tol bounds the last change of an exponent t a_k.
std::pair<double, int64_t> balance(Vector<const double> u, Vector<const double> a, Vector<const double> up,
                                   double up_constant, Vector<const double> down, double down_constant, double tol);

}  // namespace bregmat::simplex
