"""The release of hasten."""

VERSION = "0.1.0"
