"""After an audit: reviews, replay of its record, limits for builds."""
