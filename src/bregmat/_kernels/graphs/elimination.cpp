#include "graphs/graphs.hpp"

#include <functional>
#include <queue>

namespace bregmat::elimination {

constexpr double SMALL = 1e-3;  // rows whose pivot is below this share of the sum of their entries are left

using Entry = std::pair<Index, Index>;  // the degree of a row, and the row

// The entries of a row off the diagonal, and whether the row was a pivot.
struct Row {
    std::vector<int32_t> place;
    std::vector<double> value;
    bool gone = false;
    Index degree() const { return place.size(); }
};

// Eliminates the pivots; returns the sums of d_k (last entry of l_k)^2 and of d_k |l_k|^2.
static std::pair<double, double> factor_inplace(
    std::vector<Row> &rows, Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms, double share) {
    const Index n = diagonal.size;
    std::vector<double> least;
    std::vector<Index> places(n), hits(n);
    std::vector<Entry> entries;
    for (Index i = 0; i < n; i++) {
        double total = 0.0;
        for (const double x : rows[i].value) total += std::abs(x);
        least.push_back(SMALL * (std::abs(diagonal[i]) + total));
        entries.emplace_back(rows[i].degree(), i);
    }
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap({}, std::move(entries));
    Index remaining = n, base = 1, stamp = 0, *seen = places.data(), *hit = hits.data();
    double fallen = 0.0, trace = 0.0;
    while (!heap.empty()) {
        const auto [d, v] = heap.top();
        heap.pop();
        if (rows[v].gone || d != rows[v].degree()) continue;  // its degree has changed since
        Index work = 0;
        for (const Index u : rows[v].place) work += rows[u].degree();
        if (double(work) > share * double(remaining) * double(remaining)) break;
        const double pivot = diagonal[v], last = border[v] / pivot;
        if (!(pivot > least[v])) continue;
        fallen += pivot * (last * last);
        trace += pivot * (1.0 + last * last);
        remaining--;
        Row column = std::move(rows[v]);
        rows[v].gone = true;
        const int32_t *near = column.place.data();
        double *low = column.value.data();
        for (Index a = 0; a < d; a++) {
            low[a] /= pivot;
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
            Row &row = rows[u];
            const Index degree = row.degree();
            int32_t *place = row.place.data();
            double *value = row.value.data();
            Index own = 0;
            for (Index b = 0; b < degree; b++) {
                const Index at = seen[place[b]] - base;
                if (at >= 0) {  // a neighbour of both
                    value[b] -= pivot * (l * low[at]);
                    hit[at] = stamp;
                } else if (place[b] == v) {
                    own = b;
                }
            }
            place[own] = place[degree - 1], value[own] = value[degree - 1];
            row.place.pop_back(), row.value.pop_back();
            for (Index b = 0; b < d; b++)
                if (hit[b] != stamp) row.place.push_back(near[b]), row.value.push_back(-pivot * (l * low[b]));
            heap.emplace(row.degree(), u);
        }
        base += d;
    }
    return {fallen, trace};
}

Rest eliminate_inplace(Vector<double> diagonal, Vector<double> border, Vector<int64_t> terms,
    Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data, double share,
    double rounding) {
    std::vector<Row> rows(diagonal.size);
    for (Index i = 0; i < diagonal.size; i++) {
        rows[i].place.assign(indices.data + indptr[i], indices.data + indptr[i + 1]);
        rows[i].value.assign(data.data + indptr[i], data.data + indptr[i + 1]);
    }
    const auto [fallen, trace] = factor_inplace(rows, diagonal, border, terms, share);
    Rest rest;
    std::vector<Index> place(diagonal.size);  // of the rows that are left
    double size = trace + fallen, squares = 0.0;
    for (Index u = 0; u < diagonal.size; u++) {
        if (rows[u].gone) continue;
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
        for (Index b = 0; b < rows[u].degree(); b++) {
            const Index j = place[rows[u].place[b]];
            if (first <= j && j < end) row[j] += rows[u].value[b];
        }
    }
    return rest;
}

}  // namespace bregmat::elimination
