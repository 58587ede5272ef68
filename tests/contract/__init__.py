"""What every target promises, tested on each of them."""
