#include "margin/margin.hpp"

namespace bregmat::kernel_rows {

template <class T> void gaussian_block_inplace(Matrix<T> out, Matrix<const T> A, Vector<const T> hA, Vector<const T> sA,
    Matrix<const T> B, Vector<const T> hB, Vector<const T> sB, T scale, bool symmetric, Index start, Index stop) {
    constexpr Index width = std::is_same_v<T, float> ? CHUNK : HALF;
    const Buffer<T> memory(std::min(A.rows, width) * std::min(stop - start, width));
    for (Index left = start; left < stop; left += width) {
        const Index right = std::min(left + width, stop);
        for (Index top = symmetric ? left : 0; top < A.rows; top += width) {
            const Index bottom = std::min(top + width, A.rows);
            const auto S = memory.matrix(bottom - top, right - left);
            product_inplace<T>(S, A.slice(top, bottom), B.slice(left, right), Transposed::NO, Transposed::YES);
            for (Index i = top; i < bottom; i++) {
                T *target = &out(i, left);
                exp_row_inplace<T>({target, S.columns}, S[i - top], scale, hA[i], hB.slice(left, right));
                if (sA.size == 0) continue;
                INDEPENDENT
                for (Index j = left; j < right; j++) target[j - left] *= sA[i] * sB[j];
            }
            // 16 x 16 tiles: a row of the mirror image is written while its cache lines are still there
            for (Index i0 = top; i0 < bottom && symmetric; i0 += 16)
                for (Index j0 = left; j0 < right; j0 += 16)
                    for (Index j = j0; j < std::min(j0 + 16, right); j++)
                        for (Index i = i0; i < std::min(i0 + 16, bottom); i++) out(j, i) = out(i, j);
        }
    }
}

void gaussian_near_rows_inplace(
    Matrix<float> out, Matrix<const float> A, Matrix<const float> BT, Index start, Index stop) {
    for (Index left = start; left < stop; left += 4 * CHUNK)
        for (Index i = 0; i < A.rows; i++)
            near_row_inplace(out[i].slice(left, std::min(left + 4 * CHUNK, stop)), A[i], BT, left);
}

void gaussian_sums_inplace(Matrix<double> out, Matrix<const double> A, Vector<const double> hA, Matrix<const double> B,
    Vector<const double> hB, Vector<const double> weight, double scale, bool symmetric, Index start, Index stop) {
    const Buffer<double> memory(HALF * HALF);
    const auto add_rows = [&](Vector<double> f, Index top, Index bottom) {
        const Index columns = symmetric ? bottom : B.rows;  // where symmetric, each row's up to its own
        for (Index left = 0; left < columns; left += HALF) {
            const Index right = std::min(left + HALF, columns);
            const auto S = memory.matrix(bottom - top, right - left);
            product_inplace<double>(S, A.slice(top, bottom), B.slice(left, right), Transposed::NO, Transposed::YES);
            for (Index i = top; i < bottom; i++) {
                const Index end = symmetric ? std::min(right, i + 1) : right;
                const auto values = S[i - top].slice(0, end - left);
                exp_row_inplace<double>(values, values, scale, hA[i], hB.slice(left, end));
                f[i] += vectors::dot(values, weight.slice(left, end));
                const Index last = symmetric ? std::min(end, i) : left;
                INDEPENDENT
                for (Index j = left; j < last; j++) f[j] += weight[i] * values[j - left];
            }
        }
    };
    for (Index part = symmetric ? start : 0; part < (symmetric ? stop : 1); part++) {
        const Index end = symmetric ? A.rows : stop;
        for (Index top = symmetric ? part * HALF : start; top < end; top += out.rows * HALF)
            add_rows(out[part], top, std::min(top + HALF, end));
    }
}

template decltype(gaussian_block_inplace<float>) gaussian_block_inplace<float>;
template decltype(gaussian_block_inplace<double>) gaussian_block_inplace<double>;

}  // namespace bregmat::kernel_rows
