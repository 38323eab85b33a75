#include "graphs/graphs.hpp"

#include <functional>
#include <queue>

namespace bregmat::cut {

using Entry = std::pair<double, int64_t>;  // minus the gain of a vertex, and the vertex
using Heap = std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>>;

// The free vertex of largest gain; entries whose gain has changed since are thrown away. -1 if there is none.
static Index best(Heap &heap, Vector<const double> gain, const std::vector<char> &free) {
    for (; !heap.empty(); heap.pop()) {
        const auto [key, i] = heap.top();
        if (free[i] && -gain[i] == key) return i;
    }
    return -1;
}

// Vertex v changes sides; its gain and those of its neighbours follow.
static void move_inplace(Vector<double> x, Vector<double> gain, Index v, Vector<const int32_t> indptr,
    Vector<const int32_t> indices, Vector<const double> data) {
    x[v] = -x[v];
    gain[v] = -gain[v];
    for (Index k = indptr[v]; k < indptr[v + 1]; k++) {
        const Index j = indices[k];
        gain[j] += x[j] == x[v] ? -2.0 * data[k] : 2.0 * data[k];
    }
}

double refine_inplace(Vector<double> x, Vector<const double> weight, Vector<const double> range,
    Vector<const int32_t> indptr, Vector<const int32_t> indices, Vector<const double> data, double least,
    Index patience, Index max_passes) {
    const Index n = x.size, m = weight.size;
    const Buffer<double> gains(n);
    const auto gain = gains.vector();  // by how much the cut falls when a vertex alone changes sides
    for (Index i = 0; i < n; i++)
        for (Index k = indptr[i]; k < indptr[i + 1]; k++) gain[i] += x[indices[k]] != x[i] ? data[k] : -data[k];
    const auto excess = [&](double sum) { return std::max({range[0] - sum, sum - range[1], 0.0}); };
    std::vector<char> free(n);
    std::vector<Index> order(m);
    double total = 0.0, sum = 0.0;
    for (Index i = 0; i < m; i++) sum += weight[i] * x[i];
    const auto turn = [&](Index v) {
        sum -= 2.0 * weight[v] * x[v];
        move_inplace(x, gain, v, indptr, indices, data);
    };
    for (Index pass = 0; pass < max_passes; pass++) {
        std::fill(free.begin(), free.begin() + m, true);
        std::vector<Entry> sides[2];
        for (Index i = 0; i < m; i++) sides[x[i] > 0.0].push_back({-gain[i], i});
        Heap right({}, std::move(sides[1])), left({}, std::move(sides[0]));
        Index moved = 0, kept = 0;
        double gained = 0.0, most = least;
        while (moved < m) {
            const Index a = best(left, gain, free), b = best(right, gain, free);
            Index v = a >= 0 ? a : b;
            if (a >= 0 && b >= 0) {
                const double up = excess(sum + 2.0 * weight[a]), down = excess(sum - 2.0 * weight[b]);
                if (down < up || (down == up && gain[b] >= gain[a])) v = b;
            }
            free[v] = false;
            gained += gain[v];
            turn(v);
            for (Index k = indptr[v]; k < indptr[v + 1]; k++) {
                const Index j = indices[k];
                if (free[j]) (x[j] > 0.0 ? right : left).push({-gain[j], j});
            }
            order[moved++] = v;
            if (gained > most && excess(sum) == 0.0) most = gained, kept = moved;
            else if (moved - kept > 2 * patience) break;
        }
        for (Index k = moved - 1; k >= kept; k--) turn(order[k]);
        if (kept == 0) break;
        total += most;
    }
    return total;
}

void curved_inplace(Matrix<double> out, Vector<double> along, Matrix<const double> D, Matrix<const double> R,
    Vector<const double> diagonal, Vector<const int32_t> indptr, Vector<const int32_t> indices,
    Vector<const double> data) {
    for (Index i = 0; i < D.rows; i++) {
        const auto row = out[i];
        const auto own = D[i], beside = R[i];
        INDEPENDENT
        for (Index q = 0; q < row.size; q++) row[q] = diagonal[i] * own[q];
        for (Index p = indptr[i]; p < indptr[i + 1]; p++) {
            const double *other = D[indices[p]].data, weight = data[p];
            INDEPENDENT
            for (Index q = 0; q < row.size; q++) row[q] -= weight * other[q];
        }
        double total = 0.0;
        for (Index q = 0; q < row.size; q++) total += row[q] * beside[q];
        along[i] = total;
    }
}

}  // namespace bregmat::cut
