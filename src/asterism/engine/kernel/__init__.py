"""The core: state machines, runs, journals and snapshots. Pure: no I/O, clock or chance."""
