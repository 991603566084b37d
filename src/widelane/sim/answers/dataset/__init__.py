"""Problems with known answers, and a model that solves them with stated probabilities. Pure."""
