"""What the simulated model writes: scripted, solved from data, or an agent with known mistakes. Pure."""
