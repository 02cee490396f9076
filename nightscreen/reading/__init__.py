"""Read CSV, XLSX and Parquet files, and match their headings to known columns."""
