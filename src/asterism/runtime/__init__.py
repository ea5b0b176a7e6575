"""The shell around the machines, and the only loop that moves runs.

``ports`` what it needs of the world · ``session`` one run in the hands of its owner · ``arrivals`` what it takes ·
``outcomes`` of its effects ·
``standing`` what it waits for · ``driver`` all that are driven here · ``children`` those below others ·
``client`` what a program does with runs that it need not drive · ``runtime`` a client and a driver in one ·
``lookup`` what a person named ·
``inquiries`` questions asked and closed · ``registration`` a program's own machines · ``rules`` the code that moves a run ·
``submission``, ``snapshots``, ``transplant``, ``following`` journals written, shortened, moved, read as they grow ·
``clock`` time and ids · ``current`` the runtime at hand · ``private`` files for their user only.
"""
