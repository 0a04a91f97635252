"""Files in and out: LETOR text, stores, Parquet, tables, models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "letor.reader": ["read_letor"],
        "letor.scan": ["scan_letor"],
        "letor.writer": ["write_letor"],
        "query_labels": ["read_labels"],
        "parquet": ["read_parquet", "scan_parquet", "write_parquet"],
        "store": ["Store", "open_store", "write_store"],
        "tables.columns": ["TableColumns"],
        "tables.reader": ["read_table", "scan_table"],
        "errors": ["FormatError"],
    },
)
