"""Random features of all features at once: Fastfood, and the kernels and random numbers that it is made of."""
