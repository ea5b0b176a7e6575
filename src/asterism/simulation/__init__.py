"""The world in a box: the production machines under virtual time, seeded schedules and faults."""
