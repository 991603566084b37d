"""The memory that holds sequences, by engine: how it is divided, what one sequence needs, how many fit."""
