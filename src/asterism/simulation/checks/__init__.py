"""What may never be, asked after every entry of a world (docs/reliability.md).

``checker`` stands beside a world · ``watched`` one run as it knows it, and of each machine ``watched_constellation``, ``watched_loop``,
``watched_flow`` · ``shown`` the rows that show it. They judge by code of their own, not by the code they watch.
"""
