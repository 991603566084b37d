"""What the machine could do: step time, KV pool, concurrency, speculation, levers, launch command. Pure arithmetic."""
