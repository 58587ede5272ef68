"""What keeps the project in order: checks, generators of files, recordings."""
