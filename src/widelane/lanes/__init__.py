"""Many calls at once: in flight, priority, budgets, retries, trace, store."""
