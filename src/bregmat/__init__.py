"""bregmat: learn positive semidefinite matrices - kernels and Mahalanobis metrics - with certificates.

The public names are listed in ``__init__.pyi``. Each is loaded when it is first used, so that ``import bregmat`` takes a few milliseconds.
"""

from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
for _package in ("io", "online", "pairs", "plots"):  # ``bregmat.pairs.ITML`` needs no import of its own
    __all__.remove(_package)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        try:
            return _public(name)
        except AttributeError as error:
            if name in ("ITML", "ITML_Supervised", "PairsLearner"):
                raise AttributeError(f"{error}; it is in bregmat.pairs") from None
            raise
    from importlib.metadata import PackageNotFoundError, version  # which takes its time

    try:
        return version("bregmat")  # from the tag, when it was built
    except PackageNotFoundError:
        return "0+unknown"  # run from a folder, not installed
