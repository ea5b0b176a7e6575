"""The engine: machines, their journals and the driver that advances runs. It knows no form of run."""
