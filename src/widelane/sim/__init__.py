"""A server in virtual time: obeys the arithmetic of `plan`, answers what it is told to."""
