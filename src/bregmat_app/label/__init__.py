"""The labelling page: a person says which points belong together, and the page shows the metric that is learned from the answers.

Imported by the command `bregmat label` only. Only ``server.py`` and ``hub.py`` depend on the web.
"""
