#include "base/vectors.hpp"

#include <cmath>

namespace bregmat::vectors {

void add_multiple_inplace(Vector<double> out, Vector<const double> row, double c) {
    INDEPENDENT
#pragma GCC unroll 4
    for (Index t = 0; t < out.size; t++) out[t] += c * row[t];
}

double sum_of_exp(Vector<const double> lam) {
    double total = 0.0;
    for (Index i = 0; i < lam.size; i++) total += std::exp(lam[i]);
    return total;
}

template <class T, class S>
void gather_inplace(Matrix<T> out, Matrix<const S> A, Vector<const int64_t> rows, Vector<const int64_t> columns) {
    for (Index i = 0; i < rows.size; i++) {
        const auto target = out[i];
        const auto source = A[rows[i]];
        for (Index j = 0; j < columns.size; j++) target[j] = T(source[columns[j]]);
    }
}
template void gather_inplace(Matrix<double>, Matrix<const double>, Vector<const int64_t>, Vector<const int64_t>);
template void gather_inplace(Matrix<float>, Matrix<const float>, Vector<const int64_t>, Vector<const int64_t>);
template void gather_inplace(Matrix<float>, Matrix<const double>, Vector<const int64_t>, Vector<const int64_t>);
template void gather_inplace(Matrix<double>, Matrix<const float>, Vector<const int64_t>, Vector<const int64_t>);

void mirror_inplace(Matrix<float> K, Index old_size, Index new_size) {
    constexpr Index width = 64;
    float tile[width][width];  // columns of K share cache sets
    for (Index i0 = old_size; i0 < new_size; i0 += width)
        for (Index j0 = 0; j0 < old_size; j0 += width) {
            const Index i1 = std::min(i0 + width, new_size), j1 = std::min(j0 + width, old_size);
            for (Index i = i0; i < i1; i++)
                for (Index j = j0; j < j1; j++) tile[j - j0][i - i0] = K(i, j);
            for (Index j = j0; j < j1; j++) std::copy_n(tile[j - j0], i1 - i0, &K(j, i0));
        }
}

}  // namespace bregmat::vectors
