"""Skills and a flow agent whose texts are hostile, for the tests of the console."""

from __future__ import annotations

import sys

from asterism import File, SkillContext, skill
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, flowagent

HOSTILE = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>\u202e\x1b[31m&amp;"
ENDLESS = "x" * 1_000_000


@skill(idempotent=True)
def shout(text: str) -> dict[str, str]:
    """<img src=x onerror="document.title='taken'"></script><script>document.title='taken'</script>."""
    print(text)
    print(f"\x1b[2J\x1b]0;taken\x07{text}", file=sys.stderr)
    print(ENDLESS)
    return {text: text, "endless": ENDLESS}


@skill
def cry(text: str) -> str:
    """Fail with a text."""
    raise ValueError(f"{text} {ENDLESS}")


@skill(idempotent=True)
def pack(name: str, context: SkillContext) -> File:
    """Return a file of this name."""
    path = context.folder / name
    path.write_text(f"{HOSTILE}\n{ENDLESS}")
    return File(path)


@flowagent(requires_approval=True, description=HOSTILE)
class Echo(StandardAgent):
    """Repeats what it is told."""

    word: str = InputField(HOSTILE)

    async def on_running(self, msg: Message) -> AgentResult:
        """Repeat it."""
        return self.make_result(AgentStatus.COMPLETED, f"{self.word} {ENDLESS[:20_000]}")
