#include "quadratic/quadratic.hpp"

namespace bregmat::free_factor {

using vectors::add_multiple_inplace, vectors::dot;

static constexpr double rank = 1e-10;  // pivot, relative to the diagonal entry, from which rows of E_F are independent

void entries_inplace(Vector<double> out, Vector<const int64_t> F, const Quadratic &problem, Index j) {
    const auto source = problem.A[j];
    for (Index i = 0; i < F.size; i++) out[i] = source[F[i]];
    for (Index r = 0; r < problem.E.rows; r++) {
        const auto row = problem.E[r];
        const double c = problem.rho * row[j];
        for (Index i = 0; i < F.size; i++) out[i] += c * row[F[i]];
    }
}

void gather_upper_inplace(Matrix<double> M, Vector<const int64_t> F, const Quadratic &problem) {
    for (Index i = 0; i < F.size; i++) entries_inplace(M[i].from(i), F.from(i), problem, F[i]);
}

// U'^-1 b, b (k,)
static void forward_inplace(Vector<double> b, Matrix<const double> U) {
    for (Index i = 0; i < b.size; i++) {
        b[i] /= U(i, i);
        add_multiple_inplace(b.from(i + 1), U[i].from(i + 1), -b[i]);
    }
}

// (U'U)^-1 b, b (k,)
static void solve_inplace(Vector<double> b, Matrix<const double> U) {
    forward_inplace(b, U);
    for (Index i = b.size - 1; i >= 0; i--) b[i] = (b[i] - dot(b.from(i + 1), U[i].from(i + 1))) / U(i, i);
}

// Append a row and column with these entries (k + 1,), which are overwritten, to the factor U (k, k); false, with nothing else
// changed, where the pivot is at most `least` times the diagonal entry.
static bool append_inplace(Matrix<double> U, Vector<double> entries, double least) {
    const Index k = entries.size - 1;
    const auto column = entries.slice(0, k);
    forward_inplace(column, U);
    const double pivot = entries[k] - dot(column, column);
    if (!(pivot > least * entries[k])) return false;
    for (Index i = 0; i < k; i++) U(i, k) = column[i];
    U(k, k) = std::sqrt(pivot);
    return true;
}

bool join_inplace(const FreeSet &free, const Quadratic &problem, Index j, double least) {
    const Index k = free.size[0];
    const Buffer<double> entries(k + 1);
    free.order[k] = j;
    entries_inplace(entries.vector(), free.order.slice(0, k + 1), problem, j);
    if (!append_inplace(free.U, entries.vector(), least)) return false;
    free.position[j] = k;
    free.size[0] = k + 1;
    return true;
}

void leave_inplace(const FreeSet &free, Index p) {
    const Index k = free.size[0];
    const auto U = free.U;
    const Buffer<double> w(k - p - 1);
    vectors::copy_inplace<double>(w.vector(), U[p].from(p + 1));
    for (Index i = 0; i < p; i++) std::copy(&U(i, p + 1), &U(i, k), &U(i, p));
    for (Index i = p + 1; i < k; i++) {
        const auto source = U[i].from(i), out = U[i - 1].from(i - 1), rest = w.vector().from(i - p - 1);
        const double larger = std::max(std::abs(source[0]), std::abs(rest[0]));
        double c = source[0] / larger, s = rest[0] / larger;
        const double length = std::sqrt(c * c + s * s);
        c /= length, s /= length;
        INDEPENDENT
        for (Index t = 0; t < rest.size; t++) {
            const double a = source[t], b = rest[t];
            out[t] = c * a + s * b;
            rest[t] = c * b - s * a;
        }
    }
    free.position[free.order[p]] = -1;
    for (Index t = p + 1; t < k; t++) {
        free.order[t - 1] = free.order[t];
        free.position[free.order[t]] = t - 1;
    }
    free.size[0] = k - 1;
}

// E_F d for one row of E
static double row_product(Vector<const double> row, Vector<const double> d, Vector<const int64_t> F) {
    double total = 0.0;
    for (Index i = 0; i < F.size; i++) total += row[F[i]] * d[i];
    return total;
}

bool constrain_inplace(const FreeSet &free, const Quadratic &problem) {
    const auto F = free.variables();
    const Index m = problem.E.rows;
    const Buffer<double> entries(m);
    for (Index r = 0; r < m; r++) {
        const auto w = free.W[r].slice(0, F.size);
        for (Index i = 0; i < F.size; i++) w[i] = problem.E(r, F[i]);
        solve_inplace(w, free.U);
        for (Index q = 0; q <= r; q++) entries[q] = row_product(problem.E[r], free.W[q], F);
        if (!append_inplace(free.S, entries.vector().slice(0, r + 1), rank)) return false;
    }
    return true;
}

bool is_needed(const FreeSet &free, Index p) {
    const auto [W, S] = std::tie(free.W, free.S);
    const Index m = S.rows;
    const Buffer<double> unit(free.size[0]), entries(m), rest(m * m);
    unit[p] = 1.0;
    solve_inplace(unit.vector(), free.U);
    for (Index r = 0; r < m; r++) {
        double whole = 0.0;
        for (Index q = 0; q <= r; q++) {
            whole = 0.0;
            for (Index t = 0; t <= q; t++) whole += S(t, r) * S(t, q);
            entries[q] = whole - W(r, p) * W(q, p) / unit[p];
        }
        if (!(entries[r] > rank * whole)) return true;
        if (!append_inplace(rest.matrix(m, m), entries.vector().slice(0, r + 1), rank)) return true;
    }
    return false;
}

void constrained_solve_inplace(Vector<double> d, Vector<double> multiplier, Vector<const double> residual,
    const FreeSet &free, const Quadratic &problem) {
    solve_inplace(d, free.U);
    for (Index r = 0; r < problem.E.rows; r++)
        multiplier[r] = row_product(problem.E[r], d, free.variables()) - residual[r];
    solve_inplace(multiplier, free.S);
    for (Index r = 0; r < problem.E.rows; r++) add_multiple_inplace(d, free.W[r], -multiplier[r]);
}

}  // namespace bregmat::free_factor
