#include "margin/margin.hpp"

namespace bregmat::kernel_rows {

// 1 / n! from n = degree down
template <class T> struct Taylor {
    static constexpr int degree = std::is_same_v<T, float> ? 7 : 13;
    T c[degree + 1] = {};
    constexpr Taylor() {
        double factorial = 1.0;
        for (int n = 0; n <= degree; factorial *= ++n) c[degree - n] = T(1.0 / factorial);
    }
};

// exp(x), x <= 0, by a Taylor polynomial. The exponent of 2 is rounded to an integer by adding a large number, whose last bits are
// then it. ln 2 comes in two parts: the first one times the exponent is exact.
template <class T> static inline T exp_of(T x) {
    using Bits = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;
    constexpr T large = T(1.5) / std::numeric_limits<T>::epsilon();
    constexpr Taylor<T> taylor;
    const T shifted = x * T(1.4426950408889634) + large, k = shifted - large;
    const T r = x - k * T(0.693359375) + k * T(2.121944400546905827679e-4);
    T p = 0;
    for (const T c : taylor.c) p = p * r + c;
    Bits bits, exponent;
    std::memcpy(&bits, &p, sizeof p);
    std::memcpy(&exponent, &shifted, sizeof p);
    bits += exponent << (std::numeric_limits<T>::digits - 1);
    std::memcpy(&p, &bits, sizeof p);
    return p;
}

// The exponent is cut to lowest ... highest. From constants gcc would make cases of the loops, which cost more than the cuts.
template <class T> T lowest = std::is_same_v<T, float> ? T(-87) : T(-708);
template <class T> T highest = T(0);

template <class T> void exp_row_inplace(Vector<T> target, Vector<const T> source, T scale, T own, Vector<const T> h) {
    const T low = lowest<T>, high = highest<T>;
    INDEPENDENT
    for (Index j = 0; j < target.size; j++)
        target[j] = exp_of(std::max(std::min(scale * source[j] - own - h[j], high), low));
}

void near_row_inplace(Vector<float> target, Vector<const float> own, Matrix<const float> BT, Index start) {
    for (Index k = 0; k < BT.rows; k++) {
        const auto column = BT[k].from(start);
        INDEPENDENT
        for (Index j = 0; j < target.size; j++) {
            const float d = column[j] - own[k];
            target[j] = (k > 0 ? target[j] : 0.0f) + d * d;
        }
    }
    const float low = lowest<float>;
    for (Index j = 0; j < target.size; j++) target[j] = exp_of(std::max(-0.5f * target[j], low));
}

template decltype(exp_row_inplace<float>) exp_row_inplace<float>;
template decltype(exp_row_inplace<double>) exp_row_inplace<double>;

}  // namespace bregmat::kernel_rows
