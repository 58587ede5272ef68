"""The guide "Performance best practices", a module for each section."""
