"""Compiled inner loops: flat arrays in and out, no classes, no policy."""

COMPILED: list[str] = []  # names of what Python called and this process had to compile, for lack of it on disk
