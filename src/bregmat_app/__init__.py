"""What people run: the command ``bregmat`` (``cli``), the labelling page (``label``) and the HTML report (``report``).

This package imports the library ``bregmat``. The library never imports this package.
"""
