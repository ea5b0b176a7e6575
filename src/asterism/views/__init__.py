"""A journal as rows and lines of text, for everything that shows a run. Pure, and without a terminal.

``delta`` has the changes of one entry, and ``fold``. ``view`` is the view of any machine; that of a form extends it. ``words``
renders values and commands. The package ``text`` has what the commands print about a run of any form.
"""

from __future__ import annotations

from asterism.views.delta import Delta, LogLine, Weight, fold, is_story
from asterism.views.view import BaseView, RunView

__all__ = ["BaseView", "Delta", "LogLine", "RunView", "Weight", "fold", "is_story"]
