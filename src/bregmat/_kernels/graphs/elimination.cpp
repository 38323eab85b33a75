#include "graphs/graphs.hpp"

#include <functional>
#include <queue>

namespace bregmat::elimination {

constexpr double SMALL = 1e-3;  // rows whose pivot is below this share of the sum of their entries are left

using Entry = std::pair<Index, Index>;  // the degree of a row, and the row

struct Pool {
    Index size = 0;
    std::unique_ptr<int32_t[]> place;
    std::unique_ptr<double[]> value;
    explicit Pool(Index size) : size(size), place(new int32_t[size]), value(new double[size]) {}
};

// The rows that are left: row i has the length[i] entries from start[i] of the pool on, and place for room[i].
struct Rows {
    Pool pool, spare{0};
    Index end;
    std::vector<Index> start, length, room;
    std::vector<char> gone;

    Rows(Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data)
        : pool(indices.size), end(indices.size), start(indptr.data, indptr.data + indptr.size - 1), gone(start.size()) {
        std::copy_n(indices.data, indices.size, pool.place.get());
        std::copy_n(data.data, indices.size, pool.value.get());
        for (Index i = 0; i + 1 < indptr.size; i++) length.push_back(indptr[i + 1] - indptr[i]);
        room = length;
    }

    // Copies row i to `at` of another pool, or of the same.
    void copy_row(Index i, Pool &target, Index at) {
        std::copy_n(&pool.place[start[i]], length[i], &target.place[at]);
        std::copy_n(&pool.value[start[i]], length[i], &target.value[at]);
        start[i] = at;
    }

    // Gives row i a place for half as many entries again as `wanted`.
    void grow(Index i, Index wanted) {
        if (end + 3 * wanted / 2 > pool.size) {
            Index alive = 0;
            for (std::size_t k = 0; k < start.size(); k++) alive += gone[k] ? 0 : length[k];
            if (spare.size < 2 * alive + 3 * wanted) {
                spare = Pool(0);  // releases its memory first
                spare = Pool(4 * alive + 6 * wanted);
            }
            end = 0;
            for (std::size_t k = 0; k < start.size(); k++) {
                if (gone[k]) continue;
                copy_row(k, spare, end);
                end += room[k] = length[k];
            }
            std::swap(pool, spare);
        }
        copy_row(i, pool, end);
        end += room[i] = 3 * wanted / 2;
    }
};

// Eliminates the pivots; returns the sums of d_k (last entry of l_k)^2 and of d_k |l_k|^2.
static std::pair<double, double> factor_inplace(Rows &rows, Vector<double> diagonal, Vector<double> border,
                                                Vector<int64_t> terms, double share) {
    const Index n = diagonal.size;
    double fallen = 0.0, trace = 0.0;
    std::vector<double> least(n), low(n);
    std::vector<Index> near(n), seen(n), hit(n);
    std::vector<Entry> entries;
    for (Index i = 0; i < n; i++) {
        double total = 0.0;
        for (Index k = rows.start[i]; k < rows.start[i] + rows.length[i]; k++) total += std::abs(rows.pool.value[k]);
        least[i] = SMALL * (std::abs(diagonal[i]) + total);
        entries.emplace_back(rows.length[i], i);
    }
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap({}, std::move(entries));
    Index remaining = n, base = 1, stamp = 0;
    for (; !heap.empty();) {
        const auto [d, v] = heap.top();
        heap.pop();
        if (rows.gone[v] || d != rows.length[v]) continue;  // its degree has changed since
        Index work = 0;
        for (Index a = 0; a < d; a++) work += rows.length[rows.pool.place[rows.start[v] + a]];
        if (double(work) > share * double(remaining) * double(remaining)) break;
        const double pivot = diagonal[v], last = border[v] / pivot;
        if (!(pivot > least[v])) continue;
        fallen += pivot * (last * last);
        trace += pivot * (1.0 + last * last);
        rows.gone[v] = true;
        remaining--;
        for (Index a = 0; a < d; a++) {
            near[a] = rows.pool.place[rows.start[v] + a];
            low[a] = rows.pool.value[rows.start[v] + a] / pivot;
            seen[near[a]] = base + a;  // neighbours have base and above
        }
        for (Index a = 0; a < d; a++) {
            const Index u = near[a];
            const double l = low[a];
            diagonal[u] -= pivot * (l * l);
            border[u] -= pivot * (l * last);
            trace += pivot * (l * l);
            terms[u]++;
            hit[a] = ++stamp;
            Index own = rows.start[u], fill = d - 1, &length = rows.length[u];
            for (Index b = rows.start[u]; b < rows.start[u] + length; b++) {
                const Index at = seen[rows.pool.place[b]] - base;
                if (at >= 0) {  // a neighbour of both
                    rows.pool.value[b] -= pivot * (l * low[at]);
                    hit[at] = stamp;
                    fill--;
                } else if (rows.pool.place[b] == v) {
                    own = b;
                }
            }
            length--;
            rows.pool.place[own] = rows.pool.place[rows.start[u] + length];
            rows.pool.value[own] = rows.pool.value[rows.start[u] + length];
            if (length + fill > rows.room[u]) rows.grow(u, length + fill);
            for (Index b = 0; b < d; b++) {
                if (hit[b] == stamp) continue;
                rows.pool.place[rows.start[u] + length] = int32_t(near[b]);
                rows.pool.value[rows.start[u] + length++] = -pivot * (l * low[b]);
            }
            heap.emplace(length, u);
        }
        base += d;
    }
    return {fallen, trace};
}

Rest eliminate_inplace(Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms,
                       Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data,
                       double share, double rounding) {
    Rows rows(indptr, indices, data);
    const auto [fallen, trace] = factor_inplace(rows, diagonal, border, terms, share);
    Rest rest;
    std::vector<Index> place(diagonal.size);  // of the rows that are left
    double size = trace + fallen, squares = 0.0;
    for (Index u = 0; u < diagonal.size; u++) {
        if (rows.gone[u]) continue;
        place[u] = rest.left.size();
        rest.left.push_back(u);
        squares += border[u] * border[u];
    }
    for (const Index u : rest.left) size += std::abs(diagonal[u]);
    const Index n = rest.left.size(), half = (n + 1) / 2, even = 1 - n % 2;
    rest.rows = half, rest.columns = n + even;
    rest.block.reset(new double[rest.rows * rest.columns]);
    const double norm = std::sqrt(squares), floor = std::max({fallen, std::sqrt(rounding) * norm, 1e-300});
    rest.corner = rounding * (size + 2.0 * norm * norm / floor);
    rest.pivot = rest.corner + fallen;
    rest.trace = trace + rest.pivot;
    for (Index i = 0; i < n; i++) {
        const Index u = rest.left[i];
        const double last = border[u] / rest.pivot;
        rest.trace += border[u] * last;
        rest.total += diagonal[u] + border[u] * last;
        const bool upper = i < half;  // a row of the upper triangle, from the diagonal on; else of the lower
        const Index first = upper ? i : half, end = upper ? n : i + 1, shift = upper ? even : -half;
        double *row = &rest.block[(upper ? i : i - half + 1 - even) * rest.columns] + shift;
        for (Index j = first; j < end; j++) row[j] = border[rest.left[j]] * last;
        row[i] += diagonal[u];
        for (Index b = rows.start[u]; b < rows.start[u] + rows.length[u]; b++) {
            const Index j = place[rows.pool.place[b]];
            if (first <= j && j < end) row[j] += rows.pool.value[b];
        }
    }
    return rest;
}

}  // namespace bregmat::elimination
