"""Skills: functions and commands, and where they come from."""
