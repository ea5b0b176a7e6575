"""Corrections of a path, a file name or an address, which no grammar of a language reads: "actually data/a.csv"."""

from __future__ import annotations

import re

from asterism.conversation.python.slot_filling import DialogueAgent, read_message

_ADDRESS = re.compile(r"\w+://\S+")
_FILE = re.compile(r"\S*\w\.[A-Za-z]\w{0,4}")


def corrected_path(agent: DialogueAgent, text: str) -> dict[str, str]:
    """Return the field whose path a message replaces, with the new one; empty if it replaces none.

    The message is the path alone, or a correction ("no, …", "actually …"), and one field has a value of the same form.
    """
    words = text.split()
    found = [word for it in words if (word := it.strip("\"'`,;!?()").removesuffix(".")) and _form(word)]
    if len(found) != 1:
        return {}
    (path,) = found
    rest = " ".join(it for it in words if path not in it)
    seen = read_message(agent, rest)
    if rest and (seen.unknown or seen.taken or seen.troubles or not read_message(agent, f"{rest} {path}").corrects):
        return {}
    names = [
        name
        for name, field in agent.input_fields().items()
        if not field.secret and field.kind is str and _form(str(agent.collected_fields.get(name))) == _form(path)
    ]
    return {names[0]: path} if len(names) == 1 else {}


def _form(word: str) -> str:
    """Return the form of a word: an address, a file or a folder; empty for any other word."""
    if re.search(r"\s", word):
        return ""
    return "address" if _ADDRESS.fullmatch(word) else "file" if _FILE.fullmatch(word) else "folder" if "/" in word else ""
