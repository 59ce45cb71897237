"""Labels for a reviewer: which to choose, how to write them down, and what came back."""
