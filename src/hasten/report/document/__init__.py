"""What a report says, section by section, in whatever form it is printed."""
