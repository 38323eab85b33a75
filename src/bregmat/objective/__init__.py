"""What is minimised: the divergence from the prior and the losses of violated constraints.

Other rooms use ``LogDet``, ``VonNeumann``, ``Frobenius`` (``divergences``), the losses (``losses``) and ``RowLosses`` (``row_losses``).
"""
