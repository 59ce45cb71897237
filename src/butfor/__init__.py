"""butfor: which few training labels decide about this person?"""

__version__ = "0.1.0"
