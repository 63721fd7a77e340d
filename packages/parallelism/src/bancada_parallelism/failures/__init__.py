"""Who is to blame when a collective fails: an error that names the rank and the step."""

from bancada_parallelism.failures.watch import RankFailure, RankWatch

__all__ = ["RankFailure", "RankWatch"]
