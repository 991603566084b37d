"""A planner, workers and an integrator that can make the known mistakes. Pure."""
