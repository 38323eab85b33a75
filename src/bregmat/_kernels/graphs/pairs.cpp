#include "graphs/graphs.hpp"

namespace bregmat::pairs {

void adjacency_inplace(Vector<int64_t> ptr, Vector<int32_t> edge, Vector<int32_t> other, Vector<const int32_t> a,
    Vector<const int32_t> b, Vector<const int8_t> sign) {
    std::fill_n(ptr.data, ptr.size, 0);
    const auto count = ptr.from(1);  // of edges; then the start of each point's edges, which moves to their end
    for (Index i = 0; i < a.size; i++) {
        count[a[i]]++;
        if (sign[i] != 0) count[b[i]]++;
    }
    int64_t total = 0;
    for (Index u = 0; u < count.size; u++) {
        total += count[u];
        count[u] = total - count[u];
    }
    const auto list = [&](Index i, int32_t from, int32_t to) {
        const int64_t q = count[from]++;
        edge[q] = int32_t(i), other[q] = to;
    };
    for (Index i = 0; i < a.size; i++) {
        list(i, a[i], b[i]);
        if (sign[i] != 0) list(i, b[i], a[i]);
    }
}

}  // namespace bregmat::pairs
