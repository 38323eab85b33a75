"""bregmat: learn positive semidefinite matrices - kernels and Mahalanobis metrics - with certificates.

The public names are listed in ``__init__.pyi``. Those that need scikit-learn or a file reader load on first use, so that
``import bregmat`` stays quick.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

from bregmat import nearest as _nearest  # noqa: E402, F401  all divergences, losses, relations and solvers have their names now
