"""Compiled inner loops: flat arrays in and out, no classes, no policy."""
