"""A session in short: Session → Summary, the one record that every form of the report is made from."""
