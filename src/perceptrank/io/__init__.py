"""Read and write files: LETOR text, stores, Parquet, models."""
