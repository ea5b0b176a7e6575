"""Skills: plain functions and commands, with their parameters and results.

``skill`` declares a function, ``command`` a program. ``source`` finds the functions of a file or
module, and names a function so that a journal can.
"""
