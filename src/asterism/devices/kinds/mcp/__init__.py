"""The tools of an MCP server as the skills of a device.

``kind`` opens such devices from their fleet entries. ``device`` keeps the skills that
the server has now (``tools``), and performs attempts: ``calls`` makes calls, ``leg`` performs one
leg of an attempt, ``questions`` translates what a server asks, and ``results`` what it
returns, with the files of both sides. ``tasks`` (``task_messages``) follows the calls that a server makes
tasks. ``server`` (``transport``) connects to servers, also for loops.
"""
