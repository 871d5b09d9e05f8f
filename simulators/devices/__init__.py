"""Stochastic mechanisms, one file a family."""
