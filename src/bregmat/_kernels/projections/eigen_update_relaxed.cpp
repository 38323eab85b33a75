#include <cmath>

#include "projections/eigen_update.hpp"

namespace bregmat::eigen_update {

void normalise_inplace(Vector<double> row) {
    double total = 0.0;
    for (Index i = 0; i < row.size; i++) total += row[i] * row[i];
    const double scale = 1.0 / std::sqrt(total);
    for (Index i = 0; i < row.size; i++) row[i] *= scale;
}

}  // namespace bregmat::eigen_update
