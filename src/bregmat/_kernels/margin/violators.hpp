// One look over all samples of a margin machine: slopes, their extremes, who violates, and the two objectives. All vectors (n,).
#pragma once
#include <tuple>

#include "base/views.hpp"

namespace bregmat::violators {

constexpr double FAR = 1e300;  // stands for infinity, which the flags of a reduction do not allow

using Values = Vector<const double>;
using Four = std::tuple<double, double, double, double>;
using Six = std::tuple<double, double, double, double, double, double>;

// slope = signs - f - ridge x; the largest where x may rise and the smallest where it may fall, over all and inside.
Four slopes_inplace(Vector<double> slope, Values x, Values f, Values signs, Values ridge, Values lower, Values upper,
                    Vector<const bool> inside);
// By how much each sample outside violates its condition, 0 inside; the number of those above least.
Index violations_inplace(Vector<double> worse, Values slope, Values x, Values lower, Values upper,
                         Vector<const bool> inside, double shift, double least);
// x'f, sum |x|, x' ridge x, sum of C_i slack_i and of C_i slack_i^2 / 2 (C_i = 1 / ridge_i), smallest margin. Infinite upper must
// come as zeros; samples with ridge 0 add nothing to the last sum.
Six objectives(Values x, Values f, Values signs, Values upper, Values ridge, double shift);

}  // namespace bregmat::violators
