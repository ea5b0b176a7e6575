"""A device whose programs run on another computer, over SSH.

``device`` performs attempts, ``answer`` reads what a host reports of one, ``script`` has the
scripts that the host runs, ``shell`` has a shell that runs them, ``transfer`` copies files, and
``connection`` has the connections.
"""
