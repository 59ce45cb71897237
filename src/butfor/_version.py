__version__ = "0.6.0.dev0"
