#include "base/vectors.hpp"

namespace bregmat::vectors {

double dot(Vector<const double> a, Vector<const double> b) {
    double total = 0.0;
    for (Index t = 0; t < a.size; t++) total += a[t] * b[t];
    return total;
}

template <class T>
void add_rows_inplace(Vector<double> out, Matrix<const T> A, Vector<const int64_t> rows, Vector<const T> weights) {
    constexpr Index width = 2048;
    for (Index start = 0; start < out.size; start += width) {
        const Index stop = std::min(start + width, out.size);
        const auto target = out.slice(start, stop);
        Index k = 0;
        for (; k + 4 <= rows.size; k += 4) {
            const T *a = &A(rows[k], start), *b = &A(rows[k + 1], start), *c = &A(rows[k + 2], start),
                    *d = &A(rows[k + 3], start);
            const T wa = weights[k], wb = weights[k + 1], wc = weights[k + 2], wd = weights[k + 3];
            INDEPENDENT
            for (Index j = 0; j < target.size; j++) target[j] += wa * a[j] + wb * b[j] + wc * c[j] + wd * d[j];
        }
        for (; k < rows.size; k++) {
            const T *a = &A(rows[k], start);
            const T wa = weights[k];
            INDEPENDENT
            for (Index j = 0; j < target.size; j++) target[j] += wa * a[j];
        }
    }
}
template void add_rows_inplace(Vector<double>, Matrix<const double>, Vector<const int64_t>, Vector<const double>);
template void add_rows_inplace(Vector<double>, Matrix<const float>, Vector<const int64_t>, Vector<const float>);

}  // namespace bregmat::vectors
