"""The read model: what a journal shows, as rows and lines of text. Pure, and without a terminal.

Everything that shows a run reads it.

``delta`` what one entry changes, and ``fold`` · ``view`` the view of any machine · ``constellation``,
``loop``, ``flow`` the views of the three machines · ``registry`` the view that a machine has ·
``plan_history`` what was decided about a constellation, by whom and why · ``words`` values and commands
in words.
"""

from __future__ import annotations

from asterism.views.delta import Delta, LogLine, Weight, fold, is_story
from asterism.views.view import BaseView, RunView

__all__ = ["BaseView", "Delta", "LogLine", "RunView", "Weight", "fold", "is_story"]
