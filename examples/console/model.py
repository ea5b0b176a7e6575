"""What the model of the site answers: a script that plans two requests, and changes both plans while they run."""

from __future__ import annotations

import json
import re
from typing import Any

from asterism.testing.model_wire import ModelRequest, Say
from examples.replan.__main__ import answer as answer_about_digits

COMPARE = "Compare our price of a lamp with every shop in the country, and report the cheapest"
SHOPS = 400
"""Shops after which the model is content."""
TOWNS = ("Aachen", "Berlin", "Bonn", "Bremen", "Dresden", "Essen", "Hamburg", "Jena", "Kiel", "Leipzig", "Mainz", "Ulm")


def answer(request: ModelRequest) -> Say:
    """Return the answer to a question of the planner."""
    if COMPARE not in request.text:
        return answer_about_digits(request)
    _, editing, _ = request.messages[-1].partition("# What has ended")
    looked_up = max(map(int, re.findall(r"shop_(\d+)", request.text)), default=0)
    if not editing:
        said: dict[str, Any] = {
            "thought": "There is no list of all shops. I begin with two, and look for more as their prices come in.",
            "status": "CONTINUE",
            "constellation": {"tasks": [_shop(1), _shop(2)], "dependencies": []},
        }
    elif looked_up < SHOPS:
        number = looked_up + 1
        said = {
            "thought": f"{looked_up} shops are not every shop of the country. {_town(number)} has one that I have not asked.",
            "status": "CONTINUE",
            "actions": [
                {"tool": "add_task", "parameters": _shop(number)},
                {"tool": "add_dependency", "parameters": {"from": f"shop_{number - 2}", "to": f"shop_{number}", "type": "UNCONDITIONAL"}},
            ],
        }
    else:
        said = {"thought": "These are enough.", "status": "FINISH", "actions": [], "result": {"shops": looked_up}}
    text = json.dumps(said)
    return Say(text=text, input_tokens=30_000 + 500 * looked_up, output_tokens=1_500, after_s=1.0)


def _town(number: int) -> str:
    return TOWNS[number % len(TOWNS)]


def _shop(number: int) -> dict[str, Any]:
    town = _town(number)
    return {
        "task_id": f"shop_{number}",
        "name": f"prices in {town} ({number})",
        "device": "scout",
        "skill": "look_up_prices",
        "inputs": {"shop": f"{town.lower()}-lamps-{number}"},
    }
