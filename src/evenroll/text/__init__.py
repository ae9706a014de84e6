"""Plain text: reading specifications such as `key=value,…`, and writing numbers. It imports nothing but errors."""
