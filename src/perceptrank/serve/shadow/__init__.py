"""Shadow mode: challengers that learn beside the model that ranks."""
