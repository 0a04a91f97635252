"""LETOR text: reading and writing."""
