"""The shell around the machines: ports, the driver, and what performs effects."""
