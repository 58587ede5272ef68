"""A stand-in. See README.md."""

from tensorflow import lite
