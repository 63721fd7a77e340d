"""Bancada: which efficiency technique should I use, on my machine, at my sizes, and what does it cost?"""

__version__ = "0.1.0"
