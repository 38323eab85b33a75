#include "streams/streams.hpp"

#include <nanobind/stl/complex.h>
#include "base/bind.hpp"

#include <sstream>
#include <string>

namespace bregmat {

// The enumerators as attributes of the same names.
#define CONSTANTS(m, ...) set(m, #__VA_ARGS__, {__VA_ARGS__})

static void set(nb::module_ m, std::string names, std::initializer_list<int> values) {
    std::istringstream words(names);
    for (const int value : values) {
        std::getline(words >> std::ws, names, ',');
        m.attr(names.c_str()) = value;
    }
}

template <class S> static void bind_learner(nb::module_ m) {
    using Learner = lanczos::Learner<S>;
    m.def("hermitian_product_inplace", lanczos::hermitian_product_inplace<S>);
    m.def("learn_pairs_inplace", &Learner::learn_pairs_inplace);
    m.def("learn_vectors_inplace", &Learner::learn_vectors_inplace);
    m.def("predict_vectors_inplace", &Learner::predict_vectors_inplace);
    m.def("add_vectors_inplace", &Learner::add_vectors_inplace);
}

static void bind_lanczos(nb::module_ m) {
    using namespace lanczos;
    CONSTANTS(m, Z, PEAK, LOSS, CARRY, SLOPES, SEEN, SINCE, GUESS);
    CONSTANTS(m, DONE, NEEDS_REFRESH, NEEDS_ROOM, FAILED);
    bind_learner<double>(m);
    bind_learner<std::complex<double>>(m);
    m.def("tridiagonal_inplace", tridiagonal_inplace);
    m.def("account_inplace", account_inplace);
    m.def("is_due", is_due);
    m.def("tally_pairs_inplace", tally_pairs_inplace);
}

void bind_streams(nb::module_ module) {
    using namespace online;
    bind_lanczos(module.def_submodule("lanczos"));
    auto m = module.def_submodule("online");
    CONSTANTS(m, SEEN, UPDATES, LOSS, RATIO, RATE, HIGHEST, N_TOTALS, PAID, PRICE, ETA, LAST_ETA, PEAK);
    m.def("implicit_step", implicit_step);
    m.def("metric_trials_inplace", metric_trials_inplace);
    m.def("cap_spectrum_inplace", cap_spectrum_inplace);
    m.def("pca_trials_inplace", pca_trials_inplace);
}

}  // namespace bregmat
