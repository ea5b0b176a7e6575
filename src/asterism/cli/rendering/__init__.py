"""Renderers: journals, as ``asterism.views`` reads them, as lines of rich text.

``renderer`` renders a run of any machine; ``constellation``, ``loop`` and ``flow`` extend it, and ``registry``
chooses among them. ``graph`` draws a DAG with lines, ``task_lines`` adds the status of each task, ``proposals``
renders questions to people, and ``metrics`` measures a run.
"""
