"""Files in and out: LETOR text, stores, Parquet, models."""
