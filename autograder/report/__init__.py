"""What a class did, for its teacher: a page that begins with what to teach again, and the same as CSV files."""
