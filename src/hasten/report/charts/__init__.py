"""Charts as data: specifications for Vega-Lite and Vega, which draws them in a browser or into a picture."""
