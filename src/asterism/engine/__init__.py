"""The engine: machines, their journals and the driver that advances runs. It knows no form of run.

``phrases`` has the words of its phrases.
"""

from asterism.engine import phrases

__all__ = ["phrases"]
