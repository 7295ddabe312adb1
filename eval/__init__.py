"""Score text-embedding models on the tasks of JFinTEB."""
