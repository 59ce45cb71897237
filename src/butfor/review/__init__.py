"""What follows an audit: its record run again, the loop of a review closed, limits for builds."""
