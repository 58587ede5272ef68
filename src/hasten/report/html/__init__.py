"""The report as one HTML file: everything inside, nothing from the network."""
