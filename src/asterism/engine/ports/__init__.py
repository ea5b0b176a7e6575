"""The ports of the runtime: protocols that adapters implement.

``store`` holds journals, ``logs``, ``schedules``, ``events``, ``notices`` and the rows of ``files`` and ``tokens``;
``performer`` performs effects, ``observer`` watches runs, ``device`` carries out attempts, ``planner`` plans. Stores
and devices each have a contract suite in ``tests/contracts`` for all adapters.
"""
