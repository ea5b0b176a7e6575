"""Which attempt starts where, and when."""
