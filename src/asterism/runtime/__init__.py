"""The shell around the machines, and the only loop that moves runs.

``ports`` what it needs of the world · ``run_executor`` one run in the hands of its owner · ``arrivals`` what it takes ·
``effect_results`` of its effects ·
``run_status`` what it waits for · ``driver`` all that are driven here · ``children`` those below others ·
``client`` what a program does with runs that it need not drive · ``runtime`` a client and a driver in one ·
``lookup`` what a person named ·
``inquiries`` questions asked and closed · ``registration`` a program's own machines · ``code_version`` the code that moves a run ·
``submission``, ``snapshots``, ``journal_file``, ``journal_stream`` journals written, shortened, moved, read as they grow ·
``clock`` time and ids · ``current_runtime`` the runtime at hand · ``private_files`` files for their user only.
"""
