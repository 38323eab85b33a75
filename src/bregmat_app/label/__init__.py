"""A page on which a person says what belongs together and sees at once what was learned: answers, engine, questions, server.

Imported by the command `bregmat label` only. Nothing but :mod:`bregmat_app.label.server` knows of the web.
"""
