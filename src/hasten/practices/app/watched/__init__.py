"""A Python program that hasten starts and watches."""
