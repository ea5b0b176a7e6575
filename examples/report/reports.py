"""A flow agent whose fields are the parameters of a plan file.

asterism chat examples/report/reports.py
"""

from __future__ import annotations

from asterism.conversation.python import AgentResult, InputField, Message, StandardAgent, flowagent


@flowagent(
    triggers=["report"], requires_approval=True, resumable=True, description="Report on the Python files of a folder", plan="report.yaml"
)
class Report(StandardAgent):
    """The longest files of a folder."""

    folder: str = InputField("Of which folder?")
    most: int | None = InputField("How many files at most?", ge=1, le=50)

    async def on_running(self, msg: Message) -> AgentResult:
        """Run the plan, and say where the report is."""
        done = await super().on_running(msg)
        return self.make_result(done.status, f"The report is in {done.data['results']['publish']}.", done.data)
