"""Make the hub package (parquet and README) from raw sources: `python -m jfinteb.build --help`."""
