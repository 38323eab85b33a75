// The extension module of one instruction set: everything here and in the bindings is compiled for the oldest processor.
#include <atomic>

#include "base/bind.hpp"
#include "base/vectors.hpp"

namespace bregmat {

void bind_base(nb::module_ module);
void bind_graphs(nb::module_ module);
void bind_margin(nb::module_ module);
void bind_streams(nb::module_ module);
void bind_projections(nb::module_ module);
void bind_quadratic(nb::module_ module);

// A function that a Cython module of SciPy exports.
template <class F> static void take(F &function, nb::handle module, const char *name) {
    const nb::object capsule = module.attr("__pyx_capi__")[name];
    function = reinterpret_cast<F>(PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())));
    if (!function) throw nb::python_error();
}

// Not at import: loading scipy.linalg takes longer than the rest of the package. Threads that come at once all look it up.
const Blas &blas() {
    static Blas found;
    static std::atomic<bool> is_complete = false;
    if (is_complete.load(std::memory_order_acquire)) return found;
    const nb::gil_scoped_acquire interpreter;
    const nb::module_ cython_blas = nb::module_::import_("scipy.linalg.cython_blas");
    take(found.dgemm, cython_blas, "dgemm");
    take(found.sgemm, cython_blas, "sgemm");
    take(found.dgemv, cython_blas, "dgemv");
    take(found.dsyevd, nb::module_::import_("scipy.linalg.cython_lapack"), "dsyevd");
    is_complete.store(true, std::memory_order_release);
    return found;
}

static int highest_level() {
#ifdef ALL_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return 4;
    if (__builtin_cpu_supports("x86-64-v3")) return 3;
#endif
    return 1;
}

}  // namespace bregmat

NB_MODULE(LEVEL, module) {
    using namespace bregmat;
    module.def("highest_level", highest_level);
    bind_base(module);
    bind_graphs(module);
    bind_margin(module);
    bind_streams(module);
    bind_projections(module);
    bind_quadratic(module);
}
