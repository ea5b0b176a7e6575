"""What a machine is, what a journal is. Pure: events in; state and effects out."""
