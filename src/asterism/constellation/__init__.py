"""The live DAG of tasks: its model, its conditions, the edits it takes, what it means on a fleet. Pure."""
