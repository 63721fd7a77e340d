"""Training runs as a suite: to a budget, over several seeds, equally tuned; curves, quality, time and memory."""

from bancada.suite import Metric
from bancada.training.declare import (
    Budget,
    Hyper,
    Learner,
    Range,
    Space,
    Split,
    Task,
    TrainingContender,
    TrainingSuite,
)
from bancada.training.learner import GradientLearner, tensor_bytes

__all__ = [
    "Budget",
    "GradientLearner",
    "Hyper",
    "Learner",
    "Metric",
    "Range",
    "Space",
    "Split",
    "Task",
    "TrainingContender",
    "TrainingSuite",
    "tensor_bytes",
]
