"""A device whose attempts are tasks of an A2A agent.

``kind`` opens such devices from their fleet entries, and ``device`` performs attempts. ``client``
calls the agent, ``content`` makes its messages, and ``http`` decides which requests carry
credentials.
"""
