"""The read model: a journal as rows and lines of text, for everything that shows a run. Pure, and without a terminal.

``delta`` has the changes of one entry, and ``fold``. ``view`` is the view of any machine; ``constellation``,
``loop`` and ``flow`` extend it for the three machines, and ``registry`` chooses among them. ``plan_history``
has the decisions about a constellation, and ``constellation_rows`` its rows. ``fan_out`` renders tasks with
items; ``words``, ``constellation_words`` and ``device_words`` render values, commands, edits and attempts in
words. The package ``text`` has everything that the commands print about a run.
"""

from __future__ import annotations

from asterism.views.delta import Delta, LogLine, Weight, fold, is_story
from asterism.views.view import BaseView, RunView

__all__ = ["BaseView", "Delta", "LogLine", "RunView", "Weight", "fold", "is_story"]
