"""Planners turn a request into a constellation and edit it as results arrive.

- ``port`` is what a run asks of a planner; ``asterism.words.planner`` plans without a model.
- ``processor`` plans with a model, in four phases. ``prompter`` and ``excerpt`` write the prompt,
  ``model_conversation`` holds the messages of one question, ``reply``
  validates the answer, ``model`` and ``model_choice`` open the provider, and ``recording`` records
  and replays the exchanges.
- Models, tools and people edit a ``draft``: a ``plan_file`` (``plan_yaml``) or a ``live_run``.
  ``edit_tools`` describes the seven edits; ``editor`` serves them over MCP.
"""
