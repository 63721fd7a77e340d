"""Pipeline schedules as tables of actions, which a simulator and the runner both take."""

from bancada_parallelism.pipeline.run import PipelineStage
from bancada_parallelism.pipeline.schedule import Action, pipeline_schedule
from bancada_parallelism.pipeline.simulate import Simulation, simulate_pipeline

__all__ = ["Action", "PipelineStage", "Simulation", "pipeline_schedule", "simulate_pipeline"]
