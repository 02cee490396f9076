"""Tables in: CSV, XLSX and Parquet, and what their headings mean."""
