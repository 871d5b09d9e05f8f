"""Geometry read from one picture: where things are in it, how sure that is, and which parameters of a device they are.

It refuses to know outcomes and references: a picture is measured the same way whatever follows from it.
"""
