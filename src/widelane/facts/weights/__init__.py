"""Bytes of the weights: formats, what each tensor is for, and what a step reads of them."""
