"""Planners: who turns a request into a constellation.

Without a model: ``offline``.

With a model: ``processor`` and its phases (``processing``, ``strategies``) · ``prompter``, ``excerpt`` what a model is told ·
``conversation`` about one question · ``reply`` what it says · ``model`` who is asked (``model_choice``) · ``recording`` what was said.

What both, and people, edit: a ``draft``, a ``plan_file`` (``plan_yaml``) or a ``live_run``, by ``edit_tools``, which ``editor`` serves
over MCP.
"""
