"""Muon: momentum, orthogonalised, for hidden matrices."""

from bancada_optimizers.muon.api import Muon
from bancada_optimizers.muon.groups import muon_groups
from bancada_optimizers.muon.reference import muon_step, newton_schulz

__all__ = ["Muon", "muon_groups", "muon_step", "newton_schulz"]
