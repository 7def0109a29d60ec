"""Runs kernels on the host: their headers compiled by a C++ compiler over a functional model of what `ptx/` names."""
