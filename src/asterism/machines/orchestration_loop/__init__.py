"""The orchestration loop: one agent working through a plan with workers and tools.

``model`` what it speaks of · ``events`` and ``effects`` what happens to it and what it asks for · ``starting`` how it is started ·
``memory`` what it remembers · ``view`` what supervising functions see · ``requests`` what performers are given ·
``planning``, ``working``, ``conversing``, ``people``, ``reflecting``, ``ending``, ``forking`` its moves · ``table`` the machine.
"""
