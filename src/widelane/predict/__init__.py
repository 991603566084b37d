"""Would a job gain from width? The job itself, run on a simulated server in virtual time."""
