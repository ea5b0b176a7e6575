"""The orchestration loop: one agent working through a plan with workers and tools.

``model`` what it speaks of · ``events`` and ``effects`` what happens to it and what it asks for · ``definition`` how it is started ·
``memory`` what it remembers · ``view`` what supervising functions see · ``requests`` what performers are given ·
``planning``, ``steps``, ``model_rounds``, ``inquiries``, ``reflection``, ``run_end``, ``fork`` its moves · ``table`` the machine.
"""
