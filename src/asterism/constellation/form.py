"""The form of the runs of a constellation."""

from __future__ import annotations

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.wait import matches
from asterism.engine.runtime.form import Form

FORM = Form(
    CONSTELLATION_AGENT,
    matches=matches,
    view="asterism.constellation.view.view:ConstellationRunView",
    history="asterism.constellation.view.show:ShownConstellation",
)
