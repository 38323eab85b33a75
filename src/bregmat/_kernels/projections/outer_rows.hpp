// Rows A_i = shift_i I + sum_t coef_t v_t v_t' as flat arrays, and their scalar losses: what projections onto one row read.
// The arrays are described in arrays.py; the scalar functions are the compiled twins of those of bregmat.losses.
#pragma once
#include <tuple>
#include <utility>

#include "base/views.hpp"

namespace bregmat {

// Row i owns the terms ptr[i] ... ptr[i+1] - 1; the vector of a term is Z[a] + sign Z[b].
struct OuterRows {
    Vector<const int64_t> ptr;
    Vector<const double> coef;
    Matrix<const double> Z;
    Vector<const int32_t> a, b;
    Vector<const int8_t> sign;
    Vector<const double> shift;
    auto fields() { return std::tie(ptr, coef, Z, a, b, sign, shift); }
};

struct RowBounds {
    Vector<const double> bound;
    Vector<const int8_t> sense;
    Vector<const double> gamma, scale;
    Vector<const int8_t> loss;
    Vector<const double> unit;
    auto fields() { return std::tie(bound, sense, gamma, scale, loss, unit); }
};

namespace outer_rows {

enum Loss : int { HARD, ITAKURA_SAITO, RELATIVE_ENTROPY, QUADRATIC };  // ScalarLoss.projection_code

// Bound, loss and multiplier of one row.
struct Row {
    int loss, sense;
    double b, gamma, scale, mu, unit;
    auto fields() { return std::tie(loss, sense, b, gamma, scale, mu, unit); }
};

Row row_at(const RowBounds &bounds, Index i, double mu);
// By how much the value p of the row violates its bound; negative where it satisfies an inequality.
double excess(const Row &row, double p);
// The vector of term t into the first entries of v.
void load_inplace(Vector<double> v, const OuterRows &rows, Index t);
// Relaxed bound xi(mu) and its derivative (Kulis 2009, section 6.2.1: the bound that moves with its multiplier).
std::pair<double, double> relaxed(const Row &row, double mu);
// The step for a row with A_i = 0, whose value is 0 whatever the matrix: only its multiplier can move. The multiplier of a hard
// row that 0 does not satisfy grows without limit, which proves that no matrix satisfies it.
double null_step(const Row &row);
// The step, shortened so that the multiplier keeps its sign (Kulis 2009, eq. 8).
double corrected_step(double delta, double mu, int sense);

}  // namespace outer_rows
}  // namespace bregmat
