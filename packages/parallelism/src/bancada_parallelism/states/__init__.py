"""A model in parts, its whole parameters and optimizer states: saved under one layout, loaded under another."""

from bancada_parallelism.states.whole import load_whole_state, whole_state

__all__ = ["load_whole_state", "whole_state"]
