// The extension module of one instruction set: everything here and in the bindings is compiled for the oldest processor.
#include "base/bind.hpp"
#include "base/blas.hpp"

namespace bregmat {

void bind_base(nb::module_ module);
void bind_graphs(nb::module_ module);
void bind_margin(nb::module_ module);
void bind_streams(nb::module_ module);
void bind_projections(nb::module_ module);
void bind_quadratic(nb::module_ module);

// A function that a Cython module of SciPy exports.
template <class F>
static void take(F &function, nb::handle module, const char *name) {
    const nb::object capsule = module.attr("__pyx_capi__")[name];
    function = reinterpret_cast<F>(PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr())));
    if (!function) throw nb::python_error();
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
    const nb::module_ cython_blas = nb::module_::import_("scipy.linalg.cython_blas");
    take(blas.dgemm, cython_blas, "dgemm");
    take(blas.sgemm, cython_blas, "sgemm");
    take(blas.dgemv, cython_blas, "dgemv");
    take(blas.dsyevd, nb::module_::import_("scipy.linalg.cython_lapack"), "dsyevd");
    module.def("highest_level", highest_level);
    bind_base(module);
    bind_graphs(module);
    bind_margin(module);
    bind_streams(module);
    bind_projections(module);
    bind_quadratic(module);
}
