"""Looking at a captured step: as text, as a table of costs, as memory over time, as a picture."""
