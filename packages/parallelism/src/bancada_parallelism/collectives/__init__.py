"""All-reduce as tables of transfers: one table for the simulator, the runner and the count of bytes."""

from bancada_parallelism.collectives.cost import Cost, all_reduce_cost
from bancada_parallelism.collectives.counter import CountCollectives
from bancada_parallelism.collectives.reference import simulate_all_reduce
from bancada_parallelism.collectives.run import Traffic, all_reduce
from bancada_parallelism.collectives.table import Transfer, all_reduce_table

__all__ = [
    "Cost",
    "CountCollectives",
    "Traffic",
    "Transfer",
    "all_reduce",
    "all_reduce_cost",
    "all_reduce_table",
    "simulate_all_reduce",
]
