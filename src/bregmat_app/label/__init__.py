"""The labelling page: a person says which points belong together, and the page shows the metric that is learned from the answers.

Imported by the command `bregmat label` only. Only :mod:`bregmat_app.label.server` depends on the web.
"""
